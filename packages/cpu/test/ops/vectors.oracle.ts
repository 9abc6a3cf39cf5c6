import nops from 'ndarray-ops';
import type { NdArray } from 'ndarray';
import { each, float64, validOf, zeros } from './ops.oracle.ts';
import type { Rows } from './ops.oracle.ts';

type F64 = NdArray<Float64Array>;
const most = (...arrays: readonly NdArray[]): number => Math.max(...arrays.map((x) => x.shape[0]));
const rowOf = (x: NdArray, r: number, rows: number): number => Math.floor(r / (rows / x.shape[0]));
const product = (a: NdArray, b: NdArray): number => {
  const out = zeros(a.shape);
  nops.mul(out, a, b);
  return nops.sum(out);
};

/** Σ over valid slots of a[r, i] b[r, i, :]. */
export function matmul(a: Rows, b: Rows): F64 {
  const rows = most(a.array, b.array),
    x = float64(a.array),
    y = float64(b.array),
    channels = y.shape[2];
  return each(zeros([rows, channels]), (r, c) => {
    const count = Math.min(validOf(a, rowOf(x, r, rows)), validOf(b, rowOf(y, r, rows)));
    return product(x.pick(rowOf(x, r, rows), null).hi(count), y.pick(rowOf(y, r, rows), null, c).hi(count));
  });
}
/** Applies f to every vector of `k [r', n, d]` and the row's vector in `q [r, d]`. */
const along = (q: NdArray, k: NdArray, f: (q: F64, k: F64) => number): F64 => {
  const rows = most(q, k),
    x = float64(q),
    y = float64(k);
  return each(zeros([rows, k.shape[1]]), (r, i) =>
    f(x.pick(rowOf(x, r, rows), null) as F64, y.pick(rowOf(y, r, rows), i, null) as F64),
  );
};
export const dot = (q: NdArray, k: NdArray): F64 => along(q, k, product);
export const distance = (o: NdArray, v: NdArray): F64 =>
  along(o, v, (a, b) => {
    const off = zeros(a.shape);
    nops.sub(off, a, b);
    return nops.norm2(off);
  });
export const norm = (x: NdArray, p: 1 | 2): F64 => {
  const from = float64(x);
  return each(zeros(x.shape.slice(0, 2)), (r, i) =>
    p === 1 ? nops.norm1(from.pick(r, i, null)) : nops.norm2(from.pick(r, i, null)),
  );
};
