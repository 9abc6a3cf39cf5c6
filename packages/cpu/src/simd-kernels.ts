import { dotWith, gram, inverse, quadratic, placeInUnit, rotateKernel } from '@kv/core/shared';
import type { Kernel, Products } from '@kv/core';
import { blockProducts, folds, rowsHeld, TOGETHER } from './block-products.ts';
import { pieceModule } from './kernel.ts';
import type { CpuKernel } from './kernel.ts';

type Ref = Kernel['ref'];
type RefOf<K extends Kernel> = K['ref'];

/** Vectors processed together: in f64 they stay in the second-level cache. */
const MANY = 512,
  SOME = 128;
/** Largest number of vectors in the kernel's buffer of weighted vectors. */
const SHORT = 32;

const upTo = (n: number, of: number): number => of * Math.ceil(n / of);

/** Computes inner products or distances of a few queries. */
function fewQueries(
  k: CpuKernel,
  kind: 'dots' | 'distances',
  q: Float32Array,
  x: Float32Array,
  d: number,
  out: Float32Array,
): void {
  const rows = q.length / d,
    n = x.length / d,
    [own = 0, block = 0, found = 0] = k.place(8 * rows * d, 4 * MANY * d, 4 * rows * MANY);
  k.f64().set(q, own / 8);
  for (let first = 0; first < n; first += MANY) {
    const count = Math.min(MANY, n - first);
    k.f32().set(x.subarray(first * d, (first + count) * d), block / 4);
    k[kind](own, rows, block, count, d, found, 4 * MANY);
    for (let r = 0; r < rows; r++) {
      const from = found / 4 + r * MANY;
      out.set(k.f32().subarray(from, from + count), r * n + first);
    }
  }
}

/** Computes inner products of many queries, in tiles of f64 numbers. */
export function manyDots(k: CpuKernel, q: Float32Array, x: Float32Array, d: number, out: Float32Array): void {
  const rows = q.length / d,
    n = x.length / d,
    deep = upTo(d, 2),
    [narrow = 0, queries = 0, vectors = 0, found = 0] = k.place(
      4 * MANY * deep,
      8 * SOME * deep,
      8 * MANY * deep,
      4 * SOME * MANY,
    );
  for (let r0 = 0; r0 < rows; r0 += SOME) {
    const some = Math.min(SOME, rows - r0);
    k.putVectors(q, d, deep, r0, some, narrow);
    k.widen(narrow, some * deep, queries);
    for (let first = 0; first < n; first += MANY) {
      const count = Math.min(MANY, n - first);
      k.putVectors(x, d, deep, first, count, narrow);
      k.widen(narrow, count * deep, vectors);
      k.products(queries, upTo(some, 4), vectors, upTo(count, 2), deep, found, 4 * MANY);
      for (let r = 0; r < some; r++) {
        const from = found / 4 + r * MANY;
        out.set(k.f32().subarray(from, from + count), (r0 + r) * n + first);
      }
    }
  }
}

/** Returns products computed by the WebAssembly kernel. */
export const simdProducts = (k: CpuKernel): Products => ({
  dots: (q, x, d, out) => (q.length < 3 * d ? fewQueries(k, 'dots', q, x, d, out) : manyDots(k, q, x, d, out)),
  distances: (q, x, d, out) => fewQueries(k, 'distances', q, x, d, out),
  norms(x, d, out) {
    const n = x.length / d,
      [block = 0, found = 0] = k.place(4 * MANY * d, 4 * MANY);
    for (let first = 0; first < n; first += MANY) {
      const count = Math.min(MANY, n - first);
      k.f32().set(x.subarray(first * d, (first + count) * d), block / 4);
      k.norms(block, count, d, 2, found);
      out.set(k.f32().subarray(found / 4, found / 4 + count), first);
    }
  },
  mix(p, x, d, out) {
    const n = x.length / d,
      rows = n === 0 ? 0 : p.length / n,
      [shares = 0, block = 0, sums = 0] = k.place(4 * rows * MANY, 4 * MANY * d, 8 * rows * d);
    k.f64().fill(0, sums / 8, sums / 8 + rows * d);
    for (let first = 0; first < n; first += MANY) {
      const count = Math.min(MANY, n - first);
      k.f32().set(x.subarray(first * d, (first + count) * d), block / 4);
      for (let r = 0; r < rows; r++)
        k.f32().set(p.subarray(r * n + first, r * n + first + count), shares / 4 + r * MANY);
      k.mix(shares, 4 * MANY, rows, block, count, d, sums);
    }
    out.set(k.f64().subarray(sums / 8, sums / 8 + rows * d));
  },
  ...blockProducts(
    (at, length) => k.f32().subarray(at / 4, at / 4 + length),
    (q, x, d, fold, take, weigh) => {
      const rows = q.length / d,
        n = x.length / d,
        wide = upTo(n, 8),
        held = Math.min(rowsHeld(wide), upTo(rows, 4)),
        [narrow = 0, vectors = 0, queries = 0, found = 0, folded = 0, work = 0, shares = 0] = k.place(
          4 * MANY * d,
          4 * wide * d,
          4 * held * d,
          4 * held * wide,
          4 * Math.max(held, Math.ceil(held / TOGETHER) * wide),
          4 * TOGETHER,
          weigh ? 4 * held * wide : 0,
        ),
        ld = 4 * wide;
      for (let first = 0; first < n; first += MANY) {
        const count = Math.min(MANY, n - first);
        k.putVectors(x, d, d, first, count, narrow);
        k.panels(narrow, count, d, vectors + 4 * first * d);
      }
      for (let first = 0; first < rows; first += held) {
        const count = Math.min(held, rows - first);
        k.putVectors(q, d, d, first, count, queries);
        k.multiply(queries, upTo(count, 4), vectors, wide, d, found, ld);
        weigh?.(first, count, shares, ld);
        if (fold === folds.norm1 || fold === folds.norm2) k.norms(found, count, wide, fold, folded);
        else if (fold === folds.top) k.tops(found, ld, count, n, folded);
        else if (fold !== folds.rows)
          for (let r = 0; r < count; r += TOGETHER) {
            const at = found + r * ld,
              some = Math.min(TOGETHER, count - r),
              to = folded + (r / TOGETHER) * ld;
            if (fold === folds.attention) k.attend(at, ld, some, n, shares + 4 * r);
            else if (fold === folds.mass) k.mass(at, ld, some, n, to);
            else k.errors(shares + r * ld, at, ld, some, n, queries + 4 * r * d, vectors, 8, d, work, to);
          }
        take({ first, count, at: fold === folds.rows || fold === folds.attention ? found : folded, ld });
      }
    },
  ),
});

const placesInUnits =
  (k: CpuKernel): RefOf<typeof placeInUnit> =>
  ({ scores, unitOf }, _params, out, lengths) => {
    const [rows = 0, slots = 0] = scores.shape,
      [own = 0, units = 0, found = 0] = k.place(4 * slots, 4 * slots, 4 * slots);
    for (let r = 0; r < rows; r++) {
      const n = lengths[r],
        unit = Math.floor((r * unitOf.shape[0]) / rows) * slots;
      k.f32().set(scores.data.subarray(r * slots, r * slots + n), own / 4);
      k.u32().set(unitOf.data.subarray(unit, unit + n), units / 4);
      k.placeInUnit(own, units, n, found);
      out.set(k.f32().subarray(found / 4, found / 4 + n), r * slots);
    }
  };

const dotsWith =
  (k: CpuKernel): RefOf<typeof dotWith> =>
  ({ x, index }, _params, out, lengths) => {
    const [r = 0, n = 0, d = 0] = x.shape,
      [vectors = 0, places = 0, found = 0] = k.place(4 * n * d, 4 * n, 4 * n);
    for (let row = 0; row < r; row++) {
      k.putVectors(x.data, d, d, row * n, lengths[row], vectors);
      k.u32().set(index.data.subarray(row * n, row * n + lengths[row]), places / 4);
      k.dotWith(vectors, places, lengths[row], d, found);
      out.set(k.f32().subarray(found / 4, found / 4 + lengths[row]), row * n);
    }
  };

const grams =
  (k: CpuKernel): RefOf<typeof gram> =>
  ({ x, w, c }, _params, out, lengths) => {
    const [heads = 0, n = 0, d = 0] = x.shape,
      rows = Math.max(heads, w.shape[0]),
      deep = upTo(d, 8),
      [vectors = 0, from = 0, shares = 0, work = 0, acc = 0] = k.place(
        4 * MANY * deep,
        4 * deep,
        4 * MANY,
        4 * SHORT * deep,
        8 * deep * deep,
      );
    for (let r = 0; r < rows; r++) {
      const g = Math.floor((r * heads) / rows),
        weights = Math.floor((r * w.shape[0]) / rows) * n,
        sums = k
          .f64()
          .subarray(acc / 8, acc / 8 + deep * deep)
          .fill(0);
      k.putVectors(c.data, d, deep, Math.floor((g * c.shape[0]) / heads), 1, from);
      for (let first = 0; first < lengths[g]; first += MANY) {
        const count = Math.min(MANY, lengths[g] - first);
        k.putVectors(x.data, d, deep, g * n + first, count, vectors);
        k.f32().set(w.data.subarray(weights + first, weights + first + count), shares / 4);
        k.centre(vectors, count, deep, from);
        k.gram(vectors, shares, count, deep, work, acc);
      }
      for (let a = 0, to = r * d * d; a < d; a++)
        for (let b = 0; b <= a; b++) out[to + a * d + b] = out[to + b * d + a] = sums[a * deep + b];
    }
  };

const quadratics =
  (k: CpuKernel): RefOf<typeof quadratic> =>
  ({ x, m, c }, _params, out, lengths) => {
    const [heads = 0, n = 0, d = 0] = x.shape,
      group = m.shape[0] / Math.max(1, heads),
      deep = upTo(d, 8),
      [vectors = 0, from = 0, matrices = 0, found = 0] = k.place(
        4 * MANY * deep,
        4 * deep,
        4 * group * deep * deep,
        4 * MANY,
      );
    for (let g = 0; g < heads; g++) {
      k.putVectors(c.data, d, deep, Math.floor((g * c.shape[0]) / heads), 1, from);
      k.f32().fill(0, matrices / 4, matrices / 4 + group * deep * deep);
      for (let r = 0; r < group; r++)
        k.putVectors(m.data, d, deep, (g * group + r) * d, d, matrices + 4 * r * deep * deep);
      for (let first = 0; first < lengths[g]; first += MANY) {
        const count = Math.min(MANY, lengths[g] - first);
        k.putVectors(x.data, d, deep, g * n + first, count, vectors);
        k.centre(vectors, count, deep, from);
        for (let r = 0; r < group; r++) {
          k.quadratic(vectors, upTo(count, 4), deep, matrices + 4 * r * deep * deep, found);
          out.set(k.f32().subarray(found / 4, found / 4 + count), (g * group + r) * n + first);
        }
      }
    }
  };

const inverses =
  (k: CpuKernel): RefOf<typeof inverse> =>
  (inputs, params, out, lengths, products) => {
    const { m } = inputs,
      { jitter } = params,
      [r = 0, d = 0] = m.shape;
    if (d % 2 === 1) return inverse.ref(inputs, params, out, lengths, products);
    const [at = 0, work = 0] = k.place(8 * d * d, 16 * d);
    for (let h = 0; h < r; h++) {
      const a = k.f64().subarray(at / 8, at / 8 + d * d);
      a.set(m.data.subarray(h * d * d, (h + 1) * d * d));
      let top = 1e-13;
      for (let i = 0; i < d; i++) top = Math.max(top, (a[i * d + i] += jitter));
      k.inverse(at, d, 1e-7 * top, work);
      out.set(a, h * d * d);
    }
  };

const turns =
  (k: CpuKernel): RefOf<typeof rotateKernel> =>
  ({ x, cos, sin, index }, { back }, out) => {
    const [r = 0, n = 0, d = 0] = x.shape,
      [, size = 1, half = 0] = cos.shape,
      [rows = 1, width = 1] = index.shape,
      [block = 0, places = 0, co = 0, si = 0] = k.place(
        4 * MANY * d,
        4 * (n + width),
        4 * size * half,
        4 * size * half,
      );
    k.f32().set(cos.data, co / 4);
    k.f32().set(sin.data, si / 4);
    for (let h = 0; h < r; h++) {
      const row = Math.floor((h * rows) / r) * width,
        own = index.data.subarray(row, row + width);
      for (let i = 0; i < n; i += width) k.u32().set(own, places / 4 + i);
      for (let first = 0; first < n; first += MANY) {
        const count = Math.min(MANY, n - first),
          at = (h * n + first) * d;
        k.f32().set(x.data.subarray(at, at + count * d), block / 4);
        k.turn(block, count, d, half, co, si, places + 4 * first, size, back);
        out.set(k.f32().subarray(block / 4, block / 4 + count * d), at);
      }
    }
  };

/**
 * Returns the implementation of a kernel: for those of @kv/core the functions of `k`, else the kernel's own
 * WebAssembly, else its reference.
 */
export function simdKernels(k: CpuKernel): (kernel: Kernel) => Ref {
  const known = new WeakMap<Kernel, Ref>([
    [placeInUnit, placesInUnits(k)],
    [dotWith, dotsWith(k)],
    [gram, grams(k)],
    [quadratic, quadratics(k)],
    [inverse, inverses(k)],
    [rotateKernel, turns(k)],
  ]);
  return (kernel) => {
    const found = known.get(kernel);
    if (found || !kernel.wasm) return found ?? kernel.ref;
    const loop = kernel.wasm.loop(pieceModule(kernel.id, kernel.wasm.bytes)),
      ref: Ref = (inputs, params, out, lengths, products) => kernel.ref(inputs, params, out, lengths, products, loop);
    known.set(kernel, ref);
    return ref;
  };
}
