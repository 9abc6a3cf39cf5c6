import { allocator } from '@kv/core';

/** Gives every layer and KV head the requested budget: the engine's default, stated explicitly. */
export const uniform = allocator(
  'uniform',
  { source: 'what an engine starts from', says: 'Every head gets the budget that was asked for.' },
  (plan) => plan,
);
