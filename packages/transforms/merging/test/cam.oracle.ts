import ndarray from 'ndarray';
import ops from 'ndarray-ops';
import type { Vector } from './merge.oracle.ts';

/**
 * Values of one head by slot after CaM: each of the `most` best evicted, the earlier of equals, goes in equal parts to
 * the next `slots` kept ones, if its coin is below A_e against their mean.
 */
export function camOracle(
  values: readonly Vector[],
  received: readonly number[],
  scores: readonly number[],
  coins: readonly number[],
  kept: readonly number[],
  { slots, most }: { readonly slots: number; readonly most: number },
): Vector[] {
  const out = values.map((v) => ndarray(v.data.slice(), v.shape as number[]));
  const evicted = values
    .map((_, i) => i)
    .filter((i) => !kept.includes(i))
    .sort((a, b) => scores[b] - scores[a] || a - b)
    .slice(0, most);
  for (const e of evicted) {
    const next = kept
        .filter((t) => t > e)
        .sort((a, b) => a - b)
        .slice(0, slots),
      mean = next.reduce((sum, t) => sum + received[t], 0) / next.length;
    const chance = next.length === 0 || (mean === 0 && received[e] === 0) ? 0 : Math.min(1, received[e] / mean);
    if (coins[e] >= chance) continue;
    for (const t of next) {
      const part = ndarray(values[e].data.slice(), values[e].shape as number[]);
      ops.mulseq(part, 1 / next.length);
      ops.addeq(out[t], part);
    }
  }
  return out;
}
