import { biases, keys, positions, queries } from '@kv/core';

interface Window {
  readonly window: number;
}

/** `needs` and `ends` of a piece that reads the attention of the last w queries, whose own slots stay. */
export const lastQueries = {
  needs: ({ window }: Window) => [queries(window), keys, positions, biases] as const,
  ends: ({ window: last }: Window) => ({ last }),
};
