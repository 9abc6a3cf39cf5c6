import { allocator } from '@kv/core';

/** Every layer and KV head gets the budget that was asked for: the engine's default, stated explicitly. */
export const uniform = allocator(
  'uniform',
  { source: 'what an engine starts from', says: 'Every head gets the budget that was asked for.' },
  (plan) => plan,
);
