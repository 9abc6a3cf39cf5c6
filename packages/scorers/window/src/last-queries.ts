import { keys, positions, queries } from '@kv/core';

interface Window {
  readonly window: number;
}

/** What a piece declares that attends from the last w queries: what it reads, and that their own slots stay. */
export const lastQueries = {
  needs: ({ window }: Window) => [queries(window), keys, positions] as const,
  ends: ({ window: last }: Window) => ({ last }),
};
