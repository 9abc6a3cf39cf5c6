import type { WindowStatistic } from '@kv/core';

/** Puts what a query's weights of its first slots count in the place of them; `seen` of them are visible to it. */
export type Weigh = (weights: Float32Array, seen: number) => void;

/** Whether it asks how many slots a query sees. */
export const asksSeen = (of: string | undefined): boolean => of === 'votes' || of === 'normalized';

/** By statistic: what becomes of a weight before the mean over queries. */
export const weighs: Readonly<Record<WindowStatistic, Weigh>> = {
  squares: (weights) =>
    weights.forEach((a, j) => {
      weights[j] = a * a;
    }),
  votes: (weights, seen) => {
    const mean = Math.fround(1 / seen);
    weights.forEach((a, j) => {
      weights[j] = a > mean ? 1 : 0;
    });
  }, // weights are of 32 bits too
  normalized: (weights, seen) =>
    weights.forEach((a, j) => {
      weights[j] = a * (seen - 1);
    }),
  entropy: (weights) =>
    weights.forEach((a, j) => {
      weights[j] = a > 0 ? -a * Math.log(a) : 0;
    }),
};
