import { line } from './heap.ts';
import { nothing } from './nothing.ts';
import type { ThreadPool } from './thread-pool.ts';
import { GrowableBuffer } from './workspace.ts';

/** Multiplications from which on it pays to wake the other threads. */
export const WORTH: number = 2 ** 22;

export const upTo = (n: number, of: number): number => of * Math.ceil(n / of);

/** Runs operations of the host on all threads of a pool. */
export interface Calls {
  /** Returns addresses of scratch of these sizes, aligned to cache lines. Contents are undefined. */
  place(...bytes: readonly number[]): readonly number[];
  /** Runs these words over `rows` rows, with `more` bytes per thread in addition to those of products. */
  run(words: readonly number[], rows?: number, more?: number): void;
}

export function callsOf(pool: ThreadPool): Calls {
  const { heap, kernels, threads } = pool,
    [space, code, own] = [new GrowableBuffer(pool), new GrowableBuffer(pool), new GrowableBuffer(pool)];
  return {
    place(...bytes) {
      const ends = bytes.map((_, i) => bytes.slice(0, i).reduce((sum, size) => sum + upTo(size, line), 0)),
        at = space.at(bytes.reduce((sum, size) => sum + upTo(size, line), 0));
      return ends.map((end) => at + end);
    },
    run(words, rows = 1, more = 0) {
      const at = code.at(4 * words.length),
        ownBytes = kernels.ownBytes() + upTo(more, line);
      heap.words(at, words.length).set(words);
      const rooms = { shared: 0, own: own.at(ownBytes * threads), ownBytes };
      pool.call({ ...nothing, ...rooms, code: at, end: at + 4 * words.length, rows, cos: 0, sin: 0 });
    },
  };
}
