import ndarray from 'ndarray';
import type { NdArray } from 'ndarray';
import ops from 'ndarray-ops';

type Array1 = NdArray<Float64Array>;
const zeros = (...shape: number[]): Array1 => ndarray(new Float64Array(shape.reduce((a, b) => a * b, 1)), shape);
/** The rotation of a position as a d x d matrix. */
function rotation(position: number, d: number, angle: (position: number, pair: number) => number): Array1 {
  const out = zeros(d, d),
    half = Math.floor(d / 2);
  for (let c = 2 * half; c < d; c++) out.set(c, c, 1);
  for (let i = 0; i < half; i++) {
    const a = angle(position, i);
    out.set(i, i, Math.cos(a));
    out.set(i + half, i + half, Math.cos(a));
    out.set(i, i + half, -Math.sin(a));
    out.set(i + half, i, Math.sin(a));
  }
  return out;
}
const times = (m: Array1, x: Array1): Array1 => {
  const out = zeros(x.shape[0]),
    p = zeros(x.shape[0]);
  for (let r = 0; r < out.shape[0]; r++) {
    ops.mul(p, m.pick(r, null), x);
    out.set(r, ops.sum(p));
  }
  return out;
};

export interface Case {
  readonly queries: readonly Array1[];
  readonly queryPositions: readonly number[];
  readonly keys: readonly Array1[];
  readonly values: readonly Array1[];
  readonly positions: readonly number[];
  readonly length: number;
  readonly future: number;
  readonly sinks: number;
  /** What multiplies q·k. @defaultValue 1 / sqrt(d) */
  readonly scale?: number;
  /** The head's learned sink. @defaultValue none */
  readonly learned?: number;
}

const inner = (a: Array1, b: Array1): number => {
  const p = zeros(a.shape[0]);
  ops.mul(p, a, b);
  return ops.sum(p);
};
/** Mean of the rotations of the positions ahead, as a matrix. */
function meanRotation(
  length: number,
  future: number,
  d: number,
  angle: (position: number, pair: number) => number,
): Array1 {
  const R = zeros(d, d);
  for (let f = 0; f < future; f++) ops.addeq(R, rotation(length + f, d, angle));
  ops.mulseq(R, 1 / future);
  return R;
}
/** Queries of positions that are no sinks', as they were before rotation. */
export const unturned = (
  queries: readonly Array1[],
  queryPositions: readonly number[],
  sinks: number,
  angle: (position: number, pair: number) => number,
): Array1[] =>
  queries.flatMap((q, i) =>
    queryPositions[i] < sinks ? [] : [times(rotation(-queryPositions[i], q.shape[0], angle), q)],
  );

/**
 * One query head's weights over the slots that are no sinks, 0 for sinks, from a mean `[d]` and a covariance `[d, d]`
 * before rotation: full matrices, no closed form for the mean rotation.
 */
export function weightsOracle(
  mean: Array1,
  covariance: Array1,
  { keys, positions, length, future, sinks, learned = -Infinity, ...more }: Omit<Case, 'queries' | 'queryPositions'>,
  angle: (position: number, pair: number) => number,
): number[] {
  const d = mean.shape[0],
    scale = more.scale ?? 1 / Math.sqrt(d),
    R = meanRotation(length, future, d, angle),
    spread = zeros(d, d),
    half = zeros(d, d);
  for (let a = 0; a < d; a++)
    for (let b = 0; b < d; b++)
      for (let c = 0; c < d; c++) half.set(a, b, half.get(a, b) + R.get(a, c) * covariance.get(c, b));
  for (let a = 0; a < d; a++)
    for (let b = 0; b < d; b++)
      for (let c = 0; c < d; c++) spread.set(a, b, spread.get(a, b) + half.get(a, c) * R.get(b, c));
  const ahead = times(R, mean);
  const logits = keys.map((k, i) =>
      positions[i] < sinks ? -Infinity : scale * inner(ahead, k) + (scale ** 2 / 2) * inner(times(spread, k), k),
    ),
    top = Math.max(...logits, learned);
  const e = logits.map((x) => Math.exp(x - top)),
    total = e.reduce((a, b) => a + b, Math.exp(learned - top));
  return e.map((x) => x / total);
}
/** Mean and covariance of vectors, over their number less `less`. */
export function moments(
  vectors: readonly Array1[],
  less: number,
): { readonly mean: Array1; readonly covariance: Array1 } {
  const d = vectors[0].shape[0],
    mean = zeros(d),
    covariance = zeros(d, d);
  for (const v of vectors) ops.addeq(mean, v);
  ops.mulseq(mean, 1 / vectors.length);
  for (const v of vectors) {
    const off = zeros(d);
    ops.sub(off, v, mean);
    for (let a = 0; a < d; a++)
      for (let b = 0; b < d; b++)
        covariance.set(a, b, covariance.get(a, b) + (off.get(a) * off.get(b)) / Math.max(1, vectors.length - less));
  }
  return { mean, covariance };
}
/** One query head's expected weights from its own past queries. */
export function expectedOracle(
  { queries, queryPositions, ...rest }: Case,
  angle: (position: number, pair: number) => number,
): number[] {
  const { mean, covariance } = moments(unturned(queries, queryPositions, rest.sinks, angle), 0);
  return weightsOracle(mean, covariance, rest, angle);
}

/** Determinant by elimination with pivots. */
function determinant(m: Array1): number {
  const d = m.shape[0],
    a = Array.from({ length: d }, (_, r) => Array.from({ length: d }, (__, c) => m.get(r, c)));
  let product = 1;
  for (let k = 0; k < d; k++) {
    const pivot = a.reduce((best, row, r) => (r >= k && Math.abs(row[k]) > Math.abs(a[best][k]) ? r : best), k);
    if (pivot !== k) {
      [a[k], a[pivot]] = [a[pivot], a[k]];
      product = -product;
    }
    product *= a[k][k];
    for (let r = k + 1; r < d; r++) {
      const f = a[r][k] / a[k][k];
      for (let c = k; c < d; c++) a[r][c] -= f * a[k][c];
    }
  }
  return product;
}
/**
 * One query head's CapKV scores, by what its capacity det(I + Σ w v vᵀ) loses with each value: w vᵀ A^-1 v = 1 - det(A
 * - w v vᵀ) / det(A). 0 for sinks.
 */
export function capOracle(
  { queries, queryPositions, keys, values, positions, length, future, sinks }: Case,
  tau: number,
  angle: (position: number, pair: number) => number,
): number[] {
  const d = keys[0].shape[0],
    mu = times(
      meanRotation(length, future, d, angle),
      moments(unturned(queries, queryPositions, sinks, angle), 0).mean,
    );
  const cosine = keys.map((k) =>
      Math.max(-1, Math.min(1, inner(mu, k) / (Math.max(ops.norm2(mu), 1e-12) * Math.max(ops.norm2(k), 1e-12)))),
    ),
    open = positions.map((p) => p >= sinks);
  const most = Math.max(...cosine.filter((_, i) => open[i])),
    w = cosine.map((c, i) => (open[i] ? Math.exp(tau * (c - most)) : 0)),
    inside = w.map((x, i) => (open[i] ? x + 1e-6 : 0));
  const capacity = (without: number): number => {
    const m = zeros(d, d);
    for (let a = 0; a < d; a++) {
      m.set(a, a, 1);
      values.forEach((v, i) => {
        if (i !== without) for (let b = 0; b < d; b++) m.set(a, b, m.get(a, b) + inside[i] * v.get(a) * v.get(b));
      });
    }
    return determinant(m);
  };
  const whole = capacity(-1);
  return w.map((x, i) => (open[i] ? (x / inside[i]) * (1 - capacity(i) / whole) : 0));
}
export const length = (v: Array1): number => ops.norm2(v);
