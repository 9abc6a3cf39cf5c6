import ndarray from 'ndarray';
import type { NdArray } from 'ndarray';
import nops from 'ndarray-ops';
import type { Axis, Binary, Reduction, Unary } from '@kv/core';

/** An array of 1 to 3 axes and the valid slots of each row, all of them where absent. */
export interface Rows {
  readonly array: NdArray;
  readonly lengths?: readonly number[];
}
type F64 = NdArray<Float64Array>;

export const zeros = (shape: readonly number[]): F64 =>
  ndarray(new Float64Array(shape.reduce((a, b) => a * b, 1)), [...shape]);
export const float64 = (x: NdArray): F64 => {
  const out = zeros(x.shape);
  nops.assign(out, x);
  return out;
};
const rank3 = (x: NdArray): NdArray =>
  ndarray(
    x.data,
    [0, 1, 2].map((i) => x.shape[i] ?? 1),
    [0, 1, 2].map((i) => x.stride[i] ?? 0),
    x.offset,
  );
/** Row of `x` that row r of `rows` reads: the KV head of a query head. */
const share = (count: number, r: number, rows: number): number => Math.floor(r / (rows / count));
export const validOf = ({ array, lengths }: Rows, r: number, rows: number = array.shape[0]): number =>
  lengths ? lengths[share(lengths.length, r, rows)] : (array.shape[1] ?? 1);

/** Every operand at the full shape: rows repeated for their group, missing and single axes repeated. */
function broadcast(operands: readonly NdArray[]): readonly F64[] {
  const rank = Math.max(...operands.map((x) => x.shape.length)),
    shape = [0, 1, 2].map((axis) => Math.max(...operands.map((x) => x.shape[axis] ?? 1))).slice(0, rank);
  return operands.map((x) => {
    const from = rank3(x),
      out = zeros(shape),
      to = rank3(out);
    for (let r = 0; r < shape[0]; r++) {
      const row = from.pick(share(from.shape[0], r, shape[0]), null, null);
      nops.assign(
        to.pick(r, null, null),
        ndarray(
          row.data,
          to.shape.slice(1),
          row.shape.map((s, i) => (s === 1 ? 0 : row.stride[i])),
          row.offset,
        ),
      );
    }
    return out;
  });
}
export function unary(kind: Unary, x: NdArray): F64 {
  const from = float64(x),
    out = zeros(x.shape);
  if (kind === 'log1p') {
    nops.adds(out, from, 1);
    nops.logeq(out);
    return out;
  }
  nops[kind](out, from);
  return out;
}
export function binary(kind: Binary, x: NdArray, y: NdArray): F64 {
  const [a, b] = broadcast([x, y]) as [F64, F64],
    out = zeros(a.shape);
  const named = {
    add: nops.add,
    sub: nops.sub,
    mul: nops.mul,
    div: nops.div,
    max: nops.max,
    min: nops.min,
    less: nops.lt,
    atLeast: nops.geq,
    equal: nops.eq,
  } as const;
  (named[kind] as (out: NdArray, a: NdArray, b: NdArray) => unknown)(out, a, b);
  return out;
}

const LOWEST = -(2 - 2 ** -23) * 2 ** 127;
function folded(kind: Reduction, x: NdArray): number {
  const n = x.shape.reduce((a, b) => a * b, 1);
  if (n === 0) return kind === 'max' ? LOWEST : kind === 'min' ? -LOWEST : 0;
  if (kind === 'max') return nops.sup(x);
  if (kind === 'min') return nops.inf(x);
  const mean = nops.sum(x) / n;
  if (kind !== 'std') return kind === 'sum' ? nops.sum(x) : mean;
  const off = float64(x);
  nops.subseq(off, mean);
  return Math.sqrt(nops.norm2squared(off) / n);
}
export function reduce(kind: Reduction, x: Rows, axis: Axis): F64 {
  const from = rank3(float64(x.array)),
    [rows, slots, channels] = from.shape as [number, number, number],
    wide = x.array.shape.length === 3;
  if (axis === 'channels') return each(zeros([rows, slots]), (r, i) => folded(kind, from.pick(r, i, null)));
  const out = axis === 'slots' ? zeros([rows, 1, channels]) : zeros([1, slots, channels]);
  each(out, (r, i, c) =>
    folded(kind, axis === 'slots' ? from.pick(r, null, c).hi(validOf(x, r)) : from.pick(null, i, c)),
  );
  return wide ? out : (out.pick(null, null, 0) as F64);
}
/** Fills an array by a function of its indices. */
export function each(out: F64, f: (...at: number[]) => number): F64 {
  const [a, b = 1, c = 1] = out.shape;
  for (let r = 0; r < a; r++)
    for (let i = 0; i < b; i++)
      for (let k = 0; k < c; k++) out.set(...([r, i, k].slice(0, out.shape.length) as [number]), f(r, i, k));
  return out;
}
export const groupRows = (kind: 'mean' | 'max' | 'sum', x: NdArray, rows: number): F64 => {
  const from = float64(x),
    group = x.shape[0] / rows;
  return each(zeros([rows, x.shape[1]]), (r, i) => folded(kind, from.lo(r * group, i).hi(group, 1)));
};

/** Rows divided by their sums over valid slots, of the numbers or of their exponentials; uniform if the sum is 0. */
export function normalised(x: Rows, exponentials: boolean): F64 {
  const out = float64(x.array);
  for (let r = 0; r < out.shape[0]; r++) {
    const row = out.pick(r, null).hi(validOf(x, r));
    if (row.shape[0] === 0) continue;
    if (exponentials) {
      nops.subseq(row, nops.sup(row));
      nops.expeq(row);
    }
    const total = nops.sum(row);
    if (total === 0) nops.assigns(row, 1 / row.shape[0]);
    else nops.divseq(row, total);
  }
  return out;
}
