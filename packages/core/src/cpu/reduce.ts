import type { Products } from '../kernel.ts';
import type { Axis, Reduction } from '../ops.ts';
import { commonRows, contiguous, dims, raggedAs, rowOf, strides, validSlots, zeros } from './dense.ts';
import type { CpuTensor } from './dense.ts';

/** `max` over nothing: the lowest finite f32. */
export const LOWEST: number = -Math.fround(3.4028234663852886e38);

/** `count` vectors of `width` numbers, those of a vector `stride` apart. */
interface Vectors {
  readonly data: Float32Array | Uint32Array;
  readonly from: number;
  /** From one vector to the next. */
  readonly step: number;
  readonly count: number;
  readonly stride: number;
}

/** Elementwise over vectors, in order: as many results as `out` has room for. */
function fold(kind: Reduction, vectors: Vectors, out: Float64Array): Float64Array {
  if (kind === 'max' || kind === 'min') return extremes(vectors, kind === 'max' ? 1 : -1, out);
  const { count } = vectors;
  out.fill(0);
  addUp(vectors, out);
  if (kind === 'sum' || count === 0) return out;
  for (let j = 0; j < out.length; j++) out[j] /= count;
  if (kind === 'mean') return out;
  const squares = squaresAround(vectors, out);
  for (let j = 0; j < out.length; j++) out[j] = Math.sqrt(squares[j] / count);
  return out;
}

function addUp({ data, from, step, count, stride }: Vectors, out: Float64Array): void {
  const width = out.length;
  if (width === 1) {
    let sum = 0;
    for (let i = 0, at = from; i < count; i++, at += step) sum += data[at];
    out[0] = sum;
    return;
  }
  for (let i = 0; i < count; i++)
    for (let j = 0, at = from + i * step; j < width; j++, at += stride) out[j] += data[at];
}

function squaresAround({ data, from, step, count, stride }: Vectors, means: Float64Array): Float64Array {
  const out = new Float64Array(means.length);
  for (let i = 0; i < count; i++)
    for (let j = 0, at = from + i * step; j < out.length; j++, at += stride) {
      const x = data[at] - means[j];
      out[j] += x * x;
    }
  return out;
}

/** The largest numbers, of sign -1 the smallest; what is no number stays. */
function extremes({ data, from, step, count, stride }: Vectors, sign: number, out: Float64Array): Float64Array {
  const width = out.length;
  out.fill(LOWEST);
  for (let i = 0; i < count; i++)
    for (let j = 0, at = from + i * step; j < width; j++, at += stride) {
      const x = sign * data[at];
      if (x > out[j] || Number.isNaN(x)) out[j] = x;
    }
  if (sign < 0) for (let j = 0; j < width; j++) out[j] = -out[j];
  return out;
}

export function reduce(kind: Reduction, x: CpuTensor, axis: Exclude<Axis, 'rows'>): CpuTensor {
  const [rows, slots, channels] = dims(x),
    [sr, ss, sc] = strides(x),
    { data, offset } = x,
    rank3 = x.shape.length === 3;
  if (axis === 'slots') {
    const out = zeros(rank3 ? [rows, 1, channels] : [rows, 1]),
      sums = new Float64Array(channels);
    for (let r = 0; r < rows; r++)
      out.data.set(
        fold(kind, { data, from: offset + r * sr, step: ss, count: validSlots(x, r), stride: sc }, sums),
        r * channels,
      );
    return out;
  }
  const out = zeros([rows, slots], 'f32', x.lengths),
    sums = new Float64Array(slots);
  for (let r = 0; r < rows; r++)
    out.data.set(fold(kind, { data, from: offset + r * sr, step: sc, count: channels, stride: ss }, sums), r * slots);
  return out;
}

/** All rows to `rows`, neighbours together. */
export function grouped(kind: Reduction, x: CpuTensor, rows: number): CpuTensor {
  const [all, slots, channels] = dims(x),
    [sr, ss, sc] = strides(x),
    { data, offset } = x,
    count = all / rows;
  const out = zeros([rows, ...x.shape.slice(1)], 'f32', raggedAs(rows, x)),
    sums = new Float64Array(channels === 1 ? slots : channels);
  for (let r = 0; r < rows; r++)
    if (channels === 1)
      out.data.set(fold(kind, { data, from: offset + r * count * sr, step: sr, count, stride: ss }, sums), r * slots);
    else
      for (let i = 0; i < slots; i++)
        out.data.set(
          fold(kind, { data, from: offset + r * count * sr + i * ss, step: sr, count, stride: sc }, sums),
          (r * slots + i) * channels,
        );
  return out;
}

/** Each row over its valid slots divided by its sum, exponentiated first or not. */
export function normaliseRows(x: CpuTensor, softmax: boolean): CpuTensor {
  const [rows, slots] = dims(x),
    [sr, ss] = strides(x),
    { data } = x,
    out = zeros(x.shape, 'f32', x.lengths),
    weights = new Float64Array(slots);
  for (let r = 0; r < rows; r++) {
    const count = validSlots(x, r),
      from = x.offset + r * sr,
      total = softmax ? exponentials(data, from, ss, count, weights) : copied(data, from, ss, count, weights),
      to = r * slots;
    for (let i = 0; i < count; i++) out.data[to + i] = total === 0 ? 1 / count : weights[i] / total;
  }
  return out;
}

/** Writes exp(x - max) and gives their sum. */
function exponentials(
  data: Float32Array | Uint32Array,
  from: number,
  step: number,
  count: number,
  to: Float64Array,
): number {
  let top = LOWEST,
    total = 0;
  for (let i = 0, at = from; i < count; i++, at += step) if (data[at] > top) top = data[at];
  for (let i = 0, at = from; i < count; i++, at += step) total += to[i] = Math.exp(data[at] - top);
  return total;
}

/** Writes the numbers and gives their sum. */
function copied(data: Float32Array | Uint32Array, from: number, step: number, count: number, to: Float64Array): number {
  let total = 0;
  for (let i = 0, at = from; i < count; i++, at += step) total += to[i] = data[at];
  return total;
}

/** `a [r, n] x b [r', n, d] -> [r, d]` over valid slots. */
export function matmul(a: CpuTensor, b: CpuTensor): CpuTensor {
  const rows = commonRows('ops.matmul', a, b),
    [, slots, channels] = dims(b);
  const [, sa] = strides(a),
    [, sb, sc] = strides(b);
  const out = zeros([rows, channels]);
  const sums = new Float64Array(channels);
  for (let r = 0; r < rows; r++) {
    const count = Math.min(validSlots(a, rowOf(a, r, rows)), validSlots(b, rowOf(b, r, rows)), slots);
    const fromA = a.offset + rowOf(a, r, rows) * a.stride[0],
      fromB = b.offset + rowOf(b, r, rows) * b.stride[0];
    sums.fill(0);
    for (let i = 0; i < count; i++) {
      const w = a.data[fromA + i * sa];
      for (let c = 0; c < channels; c++) sums[c] += w * b.data[fromB + i * sb + c * sc];
    }
    out.data.set(sums, r * channels);
  }
  return out;
}

/**
 * The inner product of n numbers of `a` from i on with those of `b` from j on: four sums side by side, none of which
 * waits for another.
 */
export function inner(
  a: Float32Array | Uint32Array,
  i: number,
  b: Float32Array | Uint32Array,
  j: number,
  n: number,
): number {
  let w = 0,
    x = 0,
    y = 0,
    z = 0,
    c = 0;
  for (; c + 3 < n; c += 4) {
    w += a[i + c] * b[j + c];
    x += a[i + c + 1] * b[j + c + 1];
    y += a[i + c + 2] * b[j + c + 2];
    z += a[i + c + 3] * b[j + c + 3];
  }
  for (; c < n; c++) w += a[i + c] * b[j + c];
  return w + x + y + z;
}

/** By plain loops: what references of kernels use where they are given nothing faster. */
export const plainProducts: Products = {
  dots(q, x, d, out) {
    const n = x.length / d;
    for (let r = 0; r * d < q.length; r++) for (let i = 0; i < n; i++) out[r * n + i] = inner(q, r * d, x, i * d, d);
  },
  distances(q, x, d, out) {
    const n = x.length / d;
    for (let r = 0; r * d < q.length; r++)
      for (let i = 0; i < n; i++) {
        let square = 0;
        for (let c = 0; c < d; c++) {
          const off = q[r * d + c] - x[i * d + c];
          square += off * off;
        }
        out[r * n + i] = Math.sqrt(square);
      }
  },
  norms(x, d, out) {
    for (let i = 0; i * d < x.length; i++) out[i] = Math.sqrt(inner(x, i * d, x, i * d, d));
  },
  mix(p, x, d, out) {
    const n = x.length / d,
      sums = new Float64Array(d);
    for (let r = 0; r * n < p.length && n > 0; r++) {
      sums.fill(0);
      for (let i = 0; i < n; i++) {
        const w = p[r * n + i];
        for (let c = 0; c < d; c++) sums[c] += w * x[i * d + c];
      }
      out.set(sums, r * d);
    }
  },
  exps(x, less) {
    const n = x.length / less.length;
    for (let r = 0; r < less.length; r++) for (let i = r * n; i < (r + 1) * n; i++) x[i] = Math.exp(x[i] - less[r]);
  },
};

/**
 * For each vector of `b [r', n, d]`: its inner product with or distance from the row's vector `a [r, d]`, or its own
 * norm.
 */
export function alongChannels(kind: 'dot' | 'distance' | 'l1' | 'l2', b: CpuTensor, a?: CpuTensor): CpuTensor {
  const rows = commonRows(kind, a, b),
    [, slots, channels] = dims(b);
  const out = zeros([rows, slots], 'f32', raggedAs(rows, b)),
    of = contiguous(b, 2),
    to = a && contiguous(a, 1),
    [, step] = strides(of),
    { data } = of,
    row = to?.data ?? data;
  for (let r = 0; r < rows; r++) {
    const first = of.offset + rowOf(of, r, rows) * of.stride[0],
      own = to ? to.offset + rowOf(to, r, rows) * to.stride[0] : 0;
    for (let i = 0; i < slots; i++) {
      const start = first + i * step;
      let s = 0;
      if (kind === 'dot') s = inner(row, own, data, start, channels);
      else if (kind === 'l2') s = Math.sqrt(inner(data, start, data, start, channels));
      else if (kind === 'l1') for (let c = 0; c < channels; c++) s += Math.abs(data[start + c]);
      else {
        for (let c = 0; c < channels; c++) {
          const x = row[own + c] - data[start + c];
          s += x * x;
        }
        s = Math.sqrt(s);
      }
      out.data[r * slots + i] = s;
    }
  }
  return out;
}
