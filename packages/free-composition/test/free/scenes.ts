import { scene } from '@kv/laws';
import type { Scene } from '@kv/laws';

const WEIGHTS = ['spread', 'zeros', 'ties', 'dominant', 'uniform'] as const,
  VECTORS = ['spread', 'zeros', 'same', 'long', 'grid'] as const;
/**
 * Returns a small random cache of two layers for the i-th composition: sizes, raggedness and kinds of values rotate, so
 * that all of them meet all kinds of pieces.
 */
export const sceneOf = (i: number): Scene =>
  scene({
    layers: 2,
    kvHeads: 1 + (i % 3),
    group: 1 + ((i >> 1) % 3),
    slots: 4 + (i % 9),
    dim: 1 + (i % 4),
    ragged: i % 2 === 1,
    evicted: i % 4,
    budget: i % 11,
    weights: WEIGHTS[i % 5],
    vectors: VECTORS[(i >> 2) % 5],
    seed: i,
  });
/**
 * Returns a cache for comparing backends: most have arbitrary numbers, every fifth has coarse ones that tie. Caches
 * whose values are all one vector are left out, since scores such as CAOTE's are then rounding alone.
 */
export const comparableSceneOf = (i: number, layers: number): Scene =>
  scene({
    layers,
    kvHeads: 2,
    group: 2,
    slots: 12,
    dim: 4,
    ragged: i % 2 === 1,
    evicted: 2,
    budget: 5,
    weights: i % 5 === 0 ? 'ties' : 'spread',
    vectors: i % 5 === 0 ? 'grid' : 'spread',
    seed: i,
  });
