import {
  allocator,
  attentionWindow,
  demotion,
  keys,
  scorer,
  selector,
  unit,
  unitTransform,
  weightScorer,
  weightTransform,
} from '@kv/core';

export const snapkv = weightScorer('snapkv', { needs: [attentionWindow(4)] }, ({ attention }) => attention);
export const rarity = weightScorer('rarity', { needs: [attentionWindow(4)] }, ({ attention }) => attention);
export const knorm = scorer('knorm', { needs: [keys] }, ({ ops, keys: k }) => ops.sub(0, ops.norm(k)));
export const caote = weightTransform('caote', {}, ({ scores }) => scores);
export const chunks = unit('chunks', {}, ({ ops, scores }) => ({
  units: { of: ops.from({ data: new Uint32Array(4), shape: [1, 4] }), count: 1 },
  scores,
}));
export const best = unitTransform('best', {}, ({ unitScores }) => unitScores);
export const pyramidal = allocator('pyramidal', {}, (plan) => plan);
export const topK = selector('topK', {}, ({ ops, scores, budgets, ...masks }) => ops.select(scores, budgets, masks));
export const levels = demotion('levels', {}, ({ ops, scores }) => ops.fill(scores, 0));
