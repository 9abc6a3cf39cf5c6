import { KvError } from '../errors.ts';
import type { Axis, Reduction } from '../ops.ts';
import { commonRows, dims, raggedAs, rowOf, strides, validSlots, zeros } from './dense.ts';
import type { CpuTensor } from './dense.ts';

/** `max` over nothing: the lowest finite f32. */
export const LOWEST: number = -Math.fround(3.4028234663852886e38);

function fold(kind: Reduction, count: number, get: (i: number) => number): number {
  if (kind === 'max' || kind === 'min') {
    let best = kind === 'max' ? LOWEST : -LOWEST;
    for (let i = 0; i < count; i++) { const x = get(i); if (Number.isNaN(x) || (kind === 'max' ? x > best : x < best)) best = x; }
    return best;
  }
  let sum = 0;
  for (let i = 0; i < count; i++) sum += get(i);
  if (kind === 'sum' || count === 0) return sum;
  if (kind === 'mean') return sum / count;
  let square = 0;
  for (let i = 0; i < count; i++) square += (get(i) - sum / count) ** 2;
  return Math.sqrt(square / count);
}

export function reduce(kind: Reduction, x: CpuTensor, axis: Axis): CpuTensor {
  const [rows, slots, channels] = dims(x), [sr, ss, sc] = strides(x);
  const rank3 = x.shape.length === 3;
  if (axis === 'slots') {
    const out = zeros(rank3 ? [rows, 1, channels] : [rows, 1]);
    for (let r = 0; r < rows; r++) for (let c = 0; c < channels; c++)
      out.data[r * channels + c] = fold(kind, validSlots(x, r), (i) => x.data[x.offset + r * sr + i * ss + c * sc]!);
    return out;
  }
  if (axis === 'rows') {
    const out = zeros([1, ...x.shape.slice(1)], 'f32', raggedAs(1, x));
    for (let i = 0; i < slots; i++) for (let c = 0; c < channels; c++)
      out.data[i * channels + c] = fold(kind, rows, (r) => x.data[x.offset + r * sr + i * ss + c * sc]!);
    return out;
  }
  if (!rank3) throw new KvError('ops.reduce', `channels exist in tensors of rank 3, got shape [${x.shape}]`);
  const out = zeros([rows, slots], 'f32', x.lengths);
  for (let r = 0; r < rows; r++) for (let i = 0; i < slots; i++)
    out.data[r * slots + i] = fold(kind, channels, (c) => x.data[x.offset + r * sr + i * ss + c * sc]!);
  return out;
}

export function groupRows(kind: 'mean' | 'max' | 'sum', x: CpuTensor, rows: number): CpuTensor {
  const [all, slots] = dims(x), [sr, ss] = strides(x);
  if (rows < 1 || all % rows !== 0) throw new KvError('ops.groupRows', `${all} rows cannot be grouped into ${rows}: expected a divisor`);
  const size = all / rows;
  const out = zeros([rows, slots], 'f32', raggedAs(rows, x));
  for (let r = 0; r < rows; r++) for (let i = 0; i < slots; i++)
    out.data[r * slots + i] = fold(kind, size, (j) => x.data[x.offset + (r * size + j) * sr + i * ss]!);
  return out;
}

/** Per row over valid slots: subtract nothing, exponentiate or not, divide by the sum. */
export function normaliseRows(x: CpuTensor, softmax: boolean): CpuTensor {
  const [rows, slots] = dims(x), [sr, ss] = strides(x);
  const out = zeros(x.shape, 'f32', x.lengths);
  for (let r = 0; r < rows; r++) {
    const count = validSlots(x, r);
    const get = (i: number): number => x.data[x.offset + r * sr + i * ss]!;
    const top = softmax ? fold('max', count, get) : 0;
    const weight = softmax ? (i: number): number => Math.exp(get(i) - top) : get;
    const total = fold('sum', count, weight);
    for (let i = 0; i < count; i++) out.data[r * slots + i] = total === 0 ? 1 / count : weight(i) / total;
  }
  return out;
}

/** `a [r, n] x b [r', n, d] -> [r, d]` over valid slots. */
export function matmul(a: CpuTensor, b: CpuTensor): CpuTensor {
  const rows = commonRows('ops.matmul', a, b), [, slots, channels] = dims(b);
  const [, sa] = strides(a), [, sb, sc] = strides(b);
  const out = zeros([rows, channels]);
  const sums = new Float64Array(channels);
  for (let r = 0; r < rows; r++) {
    const count = Math.min(validSlots(a, rowOf(a, r, rows)), validSlots(b, rowOf(b, r, rows)), slots);
    const fromA = a.offset + rowOf(a, r, rows) * a.stride[0]!, fromB = b.offset + rowOf(b, r, rows) * b.stride[0]!;
    sums.fill(0);
    for (let i = 0; i < count; i++) { const w = a.data[fromA + i * sa]!; for (let c = 0; c < channels; c++) sums[c]! += w * b.data[fromB + i * sb + c * sc]!; }
    out.data.set(sums, r * channels);
  }
  return out;
}

/** For each vector of `b [r', n, d]`, `f(row vector element, vector element)` summed over channels, then `finish`. */
export function alongChannels(at: string, a: CpuTensor | undefined, b: CpuTensor, f: (x: number, y: number) => number, finish: (s: number) => number): CpuTensor {
  const rows = commonRows(at, a, b), [, slots, channels] = dims(b), [, sb, sc] = strides(b);
  if (a && (a.shape[1] ?? 1) !== channels) throw new KvError(at, `expected ${channels} channels, got shapes [${a.shape}] and [${b.shape}]`);
  const out = zeros([rows, slots], 'f32', raggedAs(rows, b));
  for (let r = 0; r < rows; r++) {
    const fromA = a ? a.offset + rowOf(a, r, rows) * a.stride[0]! : 0, stepA = a ? (a.stride[1] ?? 1) : 0;
    const fromB = b.offset + rowOf(b, r, rows) * b.stride[0]!;
    for (let i = 0; i < slots; i++) {
      let s = 0;
      for (let c = 0; c < channels; c++) s += f(a ? a.data[fromA + c * stepA]! : 0, b.data[fromB + i * sb + c * sc]!);
      out.data[r * slots + i] = finish(s);
    }
  }
  return out;
}
