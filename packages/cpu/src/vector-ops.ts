import { dims } from '@kv/core/engine';
import type { Products } from '@kv/core';
import type { HostTensor } from '@kv/core/engine';
import { commonRows, dense, raggedAs, rowOf, validSlots, zeros } from './dense.ts';

/** Returns the rows of `[r, w]`, or the vectors of each row of `[r, n, d]`, contiguous and in f32. */
function rowsOf(given: HostTensor): (first: number, rows: number) => Float32Array {
  const [, n, d] = dims(given),
    [step = 0, slot = 0, channel = 0] = given.stride,
    wide = given.shape.length === 3,
    close = wide ? (d === 1 || channel === 1) && (n === 1 || slot === d) : n === 1 || slot === 1,
    x = close && given.data instanceof Float32Array ? given : dense(given),
    data = x.data instanceof Float32Array ? x.data : Float32Array.from(x.data),
    size = n * d;
  if (x !== given || step === size) return (first, rows) => data.subarray(at(first, size), at(first + rows, size));
  return (first, rows) => {
    if (rows === 1) return data.subarray(at(first, step), at(first, step) + size);
    const all = new Float32Array(rows * size);
    for (let r = 0; r < rows; r++) all.set(data.subarray(at(first + r, step), at(first + r, step) + size), r * size);
    return all;
  };
  function at(row: number, by: number): number {
    return (x === given ? given.offset : 0) + row * by;
  }
}

/** Returns the Euclidean length of each vector of `[r, n, d]`. */
export function norms(by: Products, x: HostTensor): HostTensor {
  const [rows, n, d] = dims(x),
    out = zeros([rows, n], 'f32', x.lengths),
    vectors = rowsOf(x);
  for (let r = 0; r < rows; r++) by.norms(vectors(r, 1), d, head(out, r, n));
  return out;
}

/** `[r, d], [r', n, d] -> [r, n]`: inner products or distances. */
export function near(by: Products, kind: 'dots' | 'distances', q: HostTensor, x: HostTensor): HostTensor {
  const rows = commonRows(kind, q, x),
    [heads, n, d] = dims(x),
    group = rows / Math.max(1, heads),
    out = zeros([rows, n], 'f32', raggedAs(rows, x)),
    [queries, vectors] = [rowsOf(q), rowsOf(x)];
  for (let g = 0; g < heads; g++)
    by[kind](queries(rowOf(q, g * group, rows), group), vectors(g, 1), d, head(out, g, group * n));
  return out;
}

/** `a [r, n] x b [r', n, d] -> [r, d]` over valid slots. */
export function matmul(by: Products, a: HostTensor, b: HostTensor): HostTensor {
  const rows = commonRows('ops.matmul', a, b),
    [heads, n, d] = dims(b),
    group = rows / Math.max(1, heads),
    out = zeros([rows, d]),
    [weights, vectors] = [rowsOf(a), rowsOf(b)],
    counts = Array.from({ length: rows }, (_, r) =>
      Math.min(validSlots(a, rowOf(a, r, rows)), validSlots(b, rowOf(b, r, rows)), n),
    ),
    together = counts.every((count) => count === n) ? group : 1;
  for (let r = 0; r < rows; r += together) {
    const x = vectors(rowOf(b, r, rows), 1).subarray(0, counts[r] * d),
      p = weights(rowOf(a, r, rows), together);
    by.mix(together === 1 ? p.subarray(0, counts[r]) : p, x, d, head(out, r, d, together));
  }
  return out;
}

/** Returns the sum or mean of each row's vectors, `[r, n, d]` to `[r, 1, d]`. */
export function totals(by: Products, kind: 'sum' | 'mean', x: HostTensor): HostTensor {
  const [rows, , d] = dims(x),
    out = zeros([rows, 1, d]),
    vectors = rowsOf(x);
  for (let r = 0; r < rows; r++) {
    const n = validSlots(x, r),
      share = new Float32Array(n).fill(1),
      sum = head(out, r, d);
    by.mix(share, vectors(r, 1).subarray(0, n * d), d, sum);
    if (kind === 'mean' && n > 0) for (let c = 0; c < d; c++) sum[c] /= n;
  }
  return out;
}

/** Returns rows of a result. */
const head = ({ data }: HostTensor, r: number, size: number, rows = 1): Float32Array =>
  data.subarray(r * size, (r + rows) * size) as Float32Array;
