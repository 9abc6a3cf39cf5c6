import type { Kernel } from '@kv/core';
import { gram, quadratic } from '@kv/core/shared';
import { matrixWords } from './host-words.ts';
import { callsOf, WORTH } from './host-calls.ts';
import type { ThreadPool } from './thread-pool.ts';

type Ref = Kernel['ref'];
/** Vectors that a thread processes together, and those that are summed in f32. */
const SOME = 128,
  SHORT = 32;

/**
 * Returns @kv/core's matrix kernels on all threads of a pool, with the same bits as on one thread: for vectors of whole
 * tiles, where it is faster.
 */
export function heapKernels(pool: ThreadPool): (kernel: Kernel, apart: Ref) => Ref {
  const { heap } = pool,
    { place, run } = callsOf(pool);
  const shared =
    (kind: 'gram' | 'quadratic', apart: Ref): Ref =>
    (inputs, params, out, lengths, products) => {
      const { x, c, w = x, m = w } = inputs as Record<string, { data: Float32Array; shape: readonly number[] }>,
        [heads = 0, n = 0, d = 0] = x.shape,
        rows = kind === 'gram' ? Math.max(heads, w.shape[0]) : m.shape[0];
      if (d % 8 !== 0 || rows * n * d * d < WORTH) return apart(inputs, params, out, lengths, products);
      const given = [x.data, m.data, c.data],
        places = place(...given.map(({ length }) => 4 * length), 4 * out.length, 4 * lengths.length),
        [, , , found = 0, counts = 0] = places;
      given.forEach((data, i) => heap.floats(places[i], data.length).set(data));
      heap.words(counts, lengths.length).set(lengths);
      const each = kind === 'gram' ? rows : rows / heads;
      run(
        matrixWords(kind, places, [heads, n, d, each, w.shape[0], c.shape[0]]),
        1,
        4 * d * (SOME + SHORT + 2 * d) + 4 * SOME,
      );
      if (kind === 'gram') out.set(heap.floats(found, out.length));
      else
        for (let r = 0; r < rows; r++) {
          const count = lengths[Math.floor(r / each)];
          out.set(heap.floats(found + 4 * r * n, count), r * n);
        }
    };
  return (kernel, apart) => {
    if (kernel === gram) return shared('gram', apart);
    return kernel === quadratic ? shared('quadratic', apart) : apart;
  };
}
