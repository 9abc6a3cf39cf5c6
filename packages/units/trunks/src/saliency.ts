import { normaliser, number, positions, weightScorer } from '@kv/core';
import { chunk, coAttention } from './co-attention.ts';

const LEAST = 0.1;
const MOST = 20;

/**
 * Saliency S / 20: attention of the first layer that a token receives within its chunk, summed over its three strongest
 * heads, clipped to 0.1 .. 20.
 *
 * @remarks CrystalCache, eq. 11. Weights in [0.005, 1] on KV rows `[G, n]`. Costs the first layer once more.
 */
export const saliency = weightScorer(
  'saliency',
  {
    source: 'CrystalCache, eq. 11',
    says: 'First-layer attention that a token receives within its chunk, of the three strongest heads.',
    options: { chunk },
    needs: ({ chunk: size }) => [coAttention(size), positions],
  },
  ({ ops, coAttention: { saliency: s }, positions: p }) =>
    ops.take(ops.from({ data: s.map((x) => Math.min(MOST, Math.max(LEAST, x)) / MOST), shape: [1, s.length] }), p),
);

/**
 * Scores clipped to `low` .. `high`, both at least 0.
 *
 * @remarks Encoding impact, CrystalCache, eq. 22, is `weighted([10, saliency()], [10, rarity()])` and then this.
 */
export const clipToRange = normaliser(
  'clipToRange',
  {
    source: 'CrystalCache, eq. 22',
    says: 'Clips scores to a range.',
    options: {
      low: number(LEAST, 'Least score.', { least: 0 }),
      high: number(MOST, 'Largest score, at least `low`.', { least: 0 }),
    },
    check: ({ low, high }) => high < low && `high must be a number of at least low, ${low}, got ${high}`,
  },
  ({ ops, scores }, { low, high }) => ops.min(high, ops.max(low, scores)),
);
