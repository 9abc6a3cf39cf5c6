import { allocator } from '@kv/core/old';
import type { Allocator } from '@kv/core';

/** Every layer and KV head gets the budget that was asked for: what an engine starts from, said aloud. */
export const uniform = (): Allocator<'uniform'> => allocator('uniform', (plan) => plan);
