import { attentionWindow, keys } from '@kv/core';
import { allocator, scorer, selector, unit, unitTransform, weigher, weightTransform } from '@kv/core/old';
import type { Allocator, Scorer, Selector, Unit, UnitTransform, WeightTransform, Weigher } from '@kv/core';

export const snapkv = (): Weigher<'snapkv'> => weigher('snapkv', [attentionWindow(4)], ({ attention }) => attention);
export const rarity = (): Weigher<'rarity'> => weigher('rarity', [attentionWindow(4)], ({ attention }) => attention);
export const knorm = (): Scorer<'knorm'> => scorer('knorm', [keys], ({ ops, keys: k }) => ops.sub(0, ops.norm(k)));
export const caote = (): WeightTransform<'caote'> => weightTransform('caote', [], ({ scores }) => scores);
export const chunks = (): Unit<'chunks'> =>
  unit('chunks', [], ({ ops, scores }) => ({
    units: { of: ops.from({ data: new Uint32Array(4), shape: [1, 4] }), count: 1 },
    scores,
  }));
export const best = (): UnitTransform<'best'> => unitTransform('best', [], ({ unitScores }) => unitScores);
export const pyramidal = (): Allocator<'pyramidal'> => allocator('pyramidal', (plan) => plan);
export const topK = (): Selector<'topK'> =>
  selector('topK', [], ({ ops, scores, budgets, ...masks }) => ops.select(scores, budgets, masks));
