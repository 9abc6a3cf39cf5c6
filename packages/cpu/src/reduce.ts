import { LOWEST } from '@kv/core';
import { dims, strides } from '@kv/core/engine';
import { inner } from '@kv/core/shared';
import type { Products, Axis, Reduction } from '@kv/core';
import type { HostTensor } from '@kv/core/engine';
import { raggedAs, validSlots, zeros } from './dense.ts';

/** Reduces `count` numbers from `from` on, `step` apart. */
function fold(kind: Reduction, { data }: HostTensor, from: number, step: number, count: number): number {
  if (kind === 'max' || kind === 'min') {
    const sign = kind === 'max' ? 1 : -1;
    let best = LOWEST;
    for (let i = 0, at = from; i < count; i++, at += step) {
      const x = sign * data[at];
      if (x > best || Number.isNaN(x)) best = x;
    }
    return sign * best;
  }
  let sum = 0;
  for (let i = 0, at = from; i < count; i++, at += step) sum += data[at];
  if (kind === 'sum' || count === 0) return sum;
  const mean = sum / count;
  if (kind === 'mean') return mean;
  let square = 0;
  for (let i = 0, at = from; i < count; i++, at += step) square += (data[at] - mean) ** 2;
  return Math.sqrt(square / count);
}

export function reduce(kind: Reduction, x: HostTensor, axis: Exclude<Axis, 'rows'>): HostTensor {
  const [rows, slots, channels] = dims(x),
    [sr, ss, sc] = strides(x);
  if (axis === 'slots') {
    const out = zeros(x.shape.length === 3 ? [rows, 1, channels] : [rows, 1]);
    for (let r = 0; r < rows; r++)
      for (let c = 0; c < channels; c++)
        out.data[r * channels + c] = fold(kind, x, x.offset + r * sr + c * sc, ss, validSlots(x, r));
    return out;
  }
  const out = zeros([rows, slots], 'f32', x.lengths);
  for (let r = 0; r < rows; r++)
    for (let i = 0; i < slots; i++) out.data[r * slots + i] = fold(kind, x, x.offset + r * sr + i * ss, sc, channels);
  return out;
}

/** Reduces groups of consecutive rows, leaving `rows` rows. */
export function reduceGroups(kind: Reduction, x: HostTensor, rows: number): HostTensor {
  const [all, slots, channels] = dims(x),
    [sr, ss, sc] = strides(x),
    count = all / rows,
    out = zeros([rows, ...x.shape.slice(1)], 'f32', raggedAs(rows, x));
  for (let r = 0, to = 0; r < rows; r++)
    for (let i = 0; i < slots; i++)
      for (let c = 0; c < channels; c++)
        out.data[to++] = fold(kind, x, x.offset + r * count * sr + i * ss + c * sc, sr, count);
  return out;
}

/** Divides each row by its sum over valid slots, after exponentiation for softmax. */
export function normaliseRows(x: HostTensor, softmax: boolean): HostTensor {
  const [rows, slots] = dims(x),
    [sr, ss] = strides(x);
  const out = zeros(x.shape, 'f32', x.lengths),
    weights = new Float64Array(slots);
  for (let r = 0; r < rows; r++) {
    const count = validSlots(x, r),
      from = x.offset + r * sr;
    let top = LOWEST,
      total = 0;
    if (softmax) for (let i = 0; i < count; i++) top = Math.max(top, x.data[from + i * ss]);
    for (let i = 0; i < count; i++) {
      const v = x.data[from + i * ss];
      weights[i] = softmax ? Math.exp(v - top) : v;
      total += weights[i];
    }
    for (let i = 0; i < count; i++) out.data[r * slots + i] = total === 0 ? 1 / count : weights[i] / total;
  }
  return out;
}

/** Returns the function from a logit of a row to its softmax. */
function sharesOf(row: Float32Array): (y: number) => number {
  const top = row.reduce((a, b) => Math.max(a, b), LOWEST),
    total = row.reduce((sum, y) => sum + Math.exp(y - top), 0);
  return (y) => Math.exp(y - top) / total;
}

/** Products with plain loops, used by references of kernels if nothing faster is available. */
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
  multiply(q, x, d, out) {
    const n = x.length / d;
    for (let r = 0; r * d < q.length; r++)
      for (let i = 0; i < n; i++) {
        let sum = 0;
        for (let c = 0; c < d; c++) sum = Math.fround(sum + Math.fround(q[r * d + c] * x[i * d + c]));
        out[r * n + i] = sum;
      }
  },
  nearest(q, x, d, out) {
    const row = new Float32Array(x.length / d);
    for (let r = 0; r < out.length; r++) {
      plainProducts.multiply(q.subarray(r * d, (r + 1) * d), x, d, row);
      out[r] = Math.max(0, row.indexOf(row.reduce((a, b) => Math.max(a, b), LOWEST)));
    }
  },
  mass(q, x, d, out) {
    const n = x.length / d,
      m = q.length / d / (out.length / Math.max(1, n)),
      logits = new Float32Array(n),
      sums = new Float64Array(out.length);
    for (let r = 0; r * d < q.length && n > 0; r++) {
      plainProducts.multiply(q.subarray(r * d, (r + 1) * d), x, d, logits);
      const share = sharesOf(logits);
      for (let i = 0, to = Math.floor(r / m) * n; i < n; i++) sums[to + i] += share(logits[i]);
    }
    out.set(sums);
  },
  attend(q, x, d, seen, out) {
    const n = x.length / d;
    out.fill(0);
    for (let r = 0; r < seen.length; r++) {
      const row = out.subarray(r * n, r * n + seen[r]);
      plainProducts.multiply(q.subarray(r * d, (r + 1) * d), x.subarray(0, row.length * d), d, row);
      const share = sharesOf(row);
      row.forEach((y, i) => (row[i] = share(y)));
    }
  },
  reach(q, w, d, p, out) {
    const row = new Float32Array(w.length / d);
    for (let r = 0; r < out.length; r++) {
      plainProducts.multiply(q.subarray(r * d, (r + 1) * d), w, d, row);
      out[r] = p === 1 ? row.reduce((sum, y) => sum + Math.abs(y), 0) : Math.sqrt(inner(row, 0, row, 0, row.length));
    }
  },
  errors(q, x, d, p, out) {
    const n = x.length / d,
      m = q.length / d / (out.length / Math.max(1, n)),
      far = new Float32Array(n),
      sums = new Float64Array(out.length);
    for (let r = 0; r * d < q.length && n > 0; r++) {
      plainProducts.distances(q.subarray(r * d, (r + 1) * d), x, d, far);
      for (let i = 0, to = Math.floor(r / m) * n; i < n; i++) {
        const h = p[r * n + i];
        sums[to + i] += ((h / Math.max(1 - h, 2 ** -24)) * far[i]) ** 2;
      }
    }
    out.set(sums);
  },
};
