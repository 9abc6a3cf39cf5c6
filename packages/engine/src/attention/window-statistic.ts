import type { WindowStatistic } from '@kv/core';

/**
 * Adds the statistic of n weights of a query, from `at` on, to the sums of their slots; the query sees `seen` slots.
 */
export type WeightAccumulator = (
  weights: Float32Array,
  at: number,
  n: number,
  seen: number,
  sums: Float64Array,
) => void;

/** Returns whether the statistic depends on how many slots a query sees. */
export const countsVisible = (of: string | undefined): boolean => of === 'votes' || of === 'normalized';

/** What a weight adds, by statistic. */
export const weighs: Readonly<Record<WindowStatistic, WeightAccumulator>> = {
  squares: (weights, at, n, _, sums) => {
    for (let j = 0; j < n; j++) {
      const a = weights[at + j];
      sums[j] += a * a;
    }
  },
  votes: (weights, at, n, seen, sums) => {
    const mean = Math.fround(1 / seen); // f32, like the weights
    for (let j = 0; j < n; j++) if (weights[at + j] > mean) sums[j]++;
  },
  normalized: (weights, at, n, seen, sums) => {
    for (let j = 0; j < n; j++) sums[j] += weights[at + j] * (seen - 1);
  },
  entropy: (weights, at, n, _, sums) => {
    for (let j = 0; j < n; j++) {
      const a = weights[at + j];
      if (a > 0) sums[j] -= a * Math.log(a);
    }
  },
};
