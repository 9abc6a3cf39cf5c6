import ndarray from 'ndarray';
import type { NdArray } from 'ndarray';
import ops from 'ndarray-ops';

type Array1 = NdArray<Float64Array>;
const zeros = (...shape: number[]): Array1 => ndarray(new Float64Array(shape.reduce((a, b) => a * b, 1)), shape);
/** The rotation of a position as a d x d matrix. */
function rotation(position: number, d: number, angle: (position: number, pair: number) => number): Array1 {
  const out = zeros(d, d), half = Math.floor(d / 2);
  for (let c = 2 * half; c < d; c++) out.set(c, c, 1);
  for (let i = 0; i < half; i++) {
    const a = angle(position, i);
    out.set(i, i, Math.cos(a)); out.set(i + half, i + half, Math.cos(a));
    out.set(i, i + half, -Math.sin(a)); out.set(i + half, i, Math.sin(a));
  }
  return out;
}
const times = (m: Array1, x: Array1): Array1 => { const out = zeros(x.shape[0]!), p = zeros(x.shape[0]!); for (let r = 0; r < out.shape[0]!; r++) { ops.mul(p, m.pick(r, null), x); out.set(r, ops.sum(p)); } return out; };

export interface Case { readonly queries: readonly Array1[]; readonly queryPositions: readonly number[]; readonly keys: readonly Array1[]; readonly values: readonly Array1[]; readonly positions: readonly number[]; readonly length: number; readonly future: number; readonly sinks: number }

/** One query head's expected weights over the slots that are no sinks, 0 for sinks: full matrices, no closed form for the mean rotation. */
export function expectedOracle({ queries, queryPositions, keys, positions, length, future, sinks }: Case, angle: (position: number, pair: number) => number): number[] {
  const d = keys[0]!.shape[0]!, mean = zeros(d), R = zeros(d, d), spread = zeros(d, d);
  const before = queries.flatMap((q, i) => (queryPositions[i]! < sinks ? [] : [times(rotation(-queryPositions[i]!, d, angle), q)]));
  for (const q of before) ops.addeq(mean, q);
  ops.mulseq(mean, 1 / before.length);
  for (let f = 0; f < future; f++) ops.addeq(R, rotation(length + f, d, angle));
  ops.mulseq(R, 1 / future);
  for (const q of before) { const off = zeros(d); ops.sub(off, q, mean); const y = times(R, off); for (let a = 0; a < d; a++) for (let b = 0; b < d; b++) spread.set(a, b, spread.get(a, b) + (y.get(a) * y.get(b)) / before.length); }
  const ahead = times(R, mean), inner = (a: Array1, b: Array1): number => { const p = zeros(d); ops.mul(p, a, b); return ops.sum(p); };
  const logits = keys.map((k, i) => (positions[i]! < sinks ? -Infinity : inner(ahead, k) / Math.sqrt(d) + inner(times(spread, k), k) / (2 * d))), top = Math.max(...logits);
  const e = logits.map((x) => Math.exp(x - top)), total = e.reduce((a, b) => a + b);
  return e.map((x) => x / total);
}
export const length = (v: Array1): number => ops.norm2(v);
