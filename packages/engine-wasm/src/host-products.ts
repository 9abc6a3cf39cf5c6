import type { Products } from '@kv/core';
import { channelSizes, extents } from '@kv/core/shared';
import { blockProducts, folds, rowsHeld, TOGETHER } from '@kv/cpu/engine';
import { blockWords, mixWords } from './host-words.ts';
import { callsOf, upTo, WORTH } from './host-calls.ts';
import type { Calls } from './host-calls.ts';
import { kinds } from './kinds.ts';
import type { ThreadPool } from './thread-pool.ts';
import { GrowableBuffer } from './workspace.ts';

/** Outputs of a panel. */
const PANEL = 16;

/** Returns products of many vectors on all threads of a pool, in f32 except for mixtures of vectors in its heap. */
function shared(
  { heap, kernels }: ThreadPool,
  { place, run }: Calls,
): Pick<Products, 'multiply' | 'mass' | 'attend' | 'reach' | 'errors' | 'nearest' | 'mix'> {
  const products = blockProducts(
    (at, length) => heap.floats(at, length),
    (q, x, d, fold, take, weigh) => {
      const rows = q.length / d,
        n = x.length / d,
        wide = upTo(n, PANEL),
        held = Math.min(rowsHeld(wide), upTo(rows, 4)),
        [panels = 0, vectors = 0, queries = 0, found = 0, folded = 0, shares = 0] = place(
          4 * wide * d,
          heap.holds(x) ? 0 : 4 * x.length,
          4 * held * d,
          4 * held * wide,
          4 * Math.max(held, Math.ceil(held / TOGETHER) * wide),
          weigh ? 4 * held * wide : 0,
        ),
        from = heap.holds(x) ? x.byteOffset : vectors,
        weight = { at: panels, rows: wide, inputs: d };
      if (from === vectors) heap.floats(vectors, x.length).set(x);
      for (let i = 0; i < n; i += PANEL)
        kernels.pack(kinds.F32, from + 4 * i * d, 4 * d, Math.min(PANEL, n - i), d, panels + 4 * i * d);
      for (let first = 0; first < rows; first += held) {
        const count = Math.min(held, rows - first);
        weigh?.(first, count, shares, 4 * wide);
        heap.floats(queries, count * d).set(q.subarray(first * d, (first + count) * d));
        run(blockWords(weight, queries, found, fold, count, n, folded, shares), upTo(count, 4));
        take({ first, count, at: fold === folds.rows || fold === folds.attention ? found : folded, ld: 4 * wide });
      }
    },
  );
  return {
    ...products,
    mix(p, x, d, out) {
      const n = x.length / d,
        [shares = 0, sums = 0] = place(4 * p.length, 8 * out.length);
      heap.floats(shares, p.length).set(p);
      run(mixWords(shares, out.length / d, x.byteOffset, n, d, sums));
      out.set(heap.doubles(sums, out.length));
    },
  };
}

/**
 * Returns products over a pool's memory. Vectors that lie there, such as keys and values, are read in place, with the
 * same bits. Others, and many queries, go to `apart`; sums in f32 are divided between the threads.
 */
export function heapProducts(pool: ThreadPool, apart: Products): Products {
  const { heap, kernels } = pool,
    room = new GrowableBuffer(pool),
    together = shared(pool, callsOf(pool)),
    by = (q: Float32Array, x: Float32Array, d: number) => (q.length * (x.length / d) < WORTH ? apart : together);
  const nearBy =
    (kind: 'dots' | 'distances'): Products['dots'] =>
    (q, x, d, out) => {
      const rows = q.length / d,
        n = x.length / d;
      if (rows > 3 && kind === 'dots') return apart.dots(q, x, d, out);
      if (!heap.holds(x)) return apart[kind](q, x, d, out);
      const at = room.at(8 * q.length + 4 * rows * n),
        found = at + 8 * q.length;
      heap.doubles(at, q.length).set(q);
      kernels[kind](at, rows, x.byteOffset, n, d, found, 4 * n);
      out.set(heap.floats(found, rows * n));
    };
  return {
    ...apart,
    multiply: (q, x, d, out) => by(q, x, d).multiply(q, x, d, out),
    mass: (q, x, d, out) => by(q, x, d).mass(q, x, d, out),
    attend: (q, x, d, seen, out) => by(q, x, d).attend(q, x, d, seen, out),
    reach: (q, w, d, p, out) => by(q, w, d).reach(q, w, d, p, out),
    errors: (q, x, d, p, out) => by(q, x, d).errors(q, x, d, p, out),
    nearest: (q, x, d, out) => by(q, x, d).nearest(q, x, d, out),
    dots: nearBy('dots'),
    distances: nearBy('distances'),
    norms(x, d, out) {
      if (!heap.holds(x)) return apart.norms(x, d, out);
      const n = x.length / d, // `out` may have room for more
        found = room.at(4 * n);
      kernels.norms(x.byteOffset, n, d, 2, found);
      out.set(heap.floats(found, n));
    },
    extents(x, d, size, low, high) {
      if (!heap.holds(x)) return extents(x, d, size, low, high);
      const n = x.length / d,
        found = d * Math.ceil(n / size),
        at = room.at(8 * found);
      kernels.extents(x.byteOffset, n, d, size, at, at + 4 * found);
      low.set(heap.floats(at, found));
      high.set(heap.floats(at + 4 * found, found));
    },
    sizes(x, d, out) {
      if (!heap.holds(x)) return channelSizes(x, d, out);
      const found = room.at(8 * d);
      kernels.sizes(x.byteOffset, x.length / d, d, found);
      out.set(heap.doubles(found, d));
    },
    mix(p, x, d, out) {
      if (!heap.holds(x)) return apart.mix(p, x, d, out);
      if (p.length * d >= WORTH) return together.mix(p, x, d, out);
      const n = x.length / d,
        sums = room.at(8 * out.length + 4 * p.length),
        shares = sums + 8 * out.length;
      heap.doubles(sums, out.length).fill(0);
      heap.floats(shares, p.length).set(p);
      kernels.mix(shares, 4 * n, out.length / d, x.byteOffset, n, d, sums);
      out.set(heap.doubles(sums, out.length));
    },
  };
}
