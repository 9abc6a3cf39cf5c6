import { allocator, selector, unit, unitTransform } from '@kv/core';

export const chunks = unit('chunks', {}, ({ ops, scores }) => ({
  units: { of: ops.from({ data: new Uint32Array(4), shape: [1, 4] }), count: 1 },
  scores,
}));
export const best = unitTransform('best', {}, ({ unitScores }) => unitScores);
export const pyramidal = allocator('pyramidal', {}, (plan) => plan);
export const topK = selector('topK', {}, ({ ops, scores, budgets, ...masks }) => ops.select(scores, budgets, masks));
