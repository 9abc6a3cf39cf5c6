import { checkNumber, positions } from '@kv/core';
import { normaliser, weigher } from '@kv/core/old';
import type { Normaliser, Weigher } from '@kv/core';
import { coAttention } from './co-attention.ts';

const LEAST = 0.1,
  MOST = 20;

/**
 * Saliency S / 20: attention of the first layer that a token receives within its chunk, summed over its three strongest
 * heads, clipped to 0.1 .. 20.
 *
 * @remarks CrystalCache, eq. 11. Weights in [0.005, 1] on KV rows `[G, n]`. Costs the first layer once more.
 */
export const saliency = (): Weigher<'saliency'> =>
  weigher('saliency', [coAttention, positions], ({ ops, coAttention: { saliency: s }, positions: p }) =>
    ops.take(ops.from({ data: s.map((x) => Math.min(MOST, Math.max(LEAST, x)) / MOST), shape: [1, s.length] }), p),
  );

/**
 * Scores clipped to `low` .. `high`, both at least 0.
 *
 * @remarks Encoding impact, CrystalCache, eq. 22, is `weighted([10, saliency()], [10, rarity()])` and then this.
 */
export function clip({
  low = LEAST,
  high = MOST,
}: {
  /** @defaultValue 0.1 */ readonly low?: number /** @defaultValue 20 */;
  readonly high?: number;
} = {}): Normaliser<'clip'> {
  checkNumber('clip', 'low', low, 'a number of at least 0', (x) => x >= 0);
  checkNumber('clip', 'high', high, `a number of at least low, ${low}`, (x) => x >= low && Number.isFinite(x));
  return normaliser({ name: 'clip', options: { low, high } }, [], ({ ops, scores }) =>
    ops.min(high, ops.max(low, scores)),
  );
}
