import ndarray from 'ndarray';
import type { NdArray } from 'ndarray';
import ops from 'ndarray-ops';

/** Vectors of one head, `[n, d]`, and one number a slot, `[n]`. */
export type Vectors = NdArray<Float64Array>;
export type Row = NdArray<Float64Array>;
const zeros = (...shape: number[]): Row => ndarray(new Float64Array(shape.reduce((a, b) => a * b, 1)), shape);
const inner = (a: Row, b: Row): number => {
  const p = zeros(a.shape[0]);
  ops.mul(p, a, b);
  return ops.sum(p);
};
const rowOf = (count: number, f: (i: number) => number): Row =>
  ndarray(
    Float64Array.from({ length: count }, (_, i) => f(i)),
    [count],
  );

/** The mean of the unit keys of one head. */
export function anchorOf(keys: Vectors): Row {
  const [n = 0, d = 0] = keys.shape,
    anchor = zeros(d),
    unit = zeros(d);
  for (let i = 0; i < n; i++) {
    const length = ops.norm2(keys.pick(i, null));
    if (length > 0) {
      ops.muls(unit, keys.pick(i, null), 1 / (length * n));
      ops.addeq(anchor, unit);
    }
  }
  return anchor;
}
/** KeyDiff of one head: minus the cosine with the mean of the unit keys; a vector of length 0 has cosine 0. */
export function keydiffOracle(keys: Vectors): Row {
  const n = keys.shape[0],
    anchor = anchorOf(keys);
  return rowOf(n, (i) => {
    const bottom = ops.norm2(keys.pick(i, null)) * ops.norm2(anchor);
    return bottom === 0 ? 0 : -inner(keys.pick(i, null), anchor) / bottom;
  });
}

/** CUR of one head: shares of the squared norms within windows, combined, normalised; sinks 1. */
export function curOracle(
  keys: Vectors,
  values: Vectors,
  positions: readonly number[],
  { sinks, window, of }: { readonly sinks: number; readonly window: number; readonly of: string },
): Row {
  const n = positions.length;
  const share = (x: Vectors, i: number): number => {
    const from = i - (i % window),
      all = Array.from({ length: Math.min(window, n - from) }, (_, j) =>
        ops.norm2squared(x.pick(from + j, null)),
      ).reduce((a, b) => a + b);
    return all === 0 ? 0 : ops.norm2squared(x.pick(i, null)) / all;
  };
  const raw = rowOf(
    n,
    (i) =>
      ({
        key: share(keys, i),
        value: share(values, i),
        product: share(keys, i) * share(values, i),
        mean: (share(keys, i) + share(values, i)) / 2,
      })[of]!,
  );
  const total = ops.sum(raw);
  return rowOf(n, (i) => (positions[i] < sinks ? 1 : total === 0 ? 1 / n : raw.get(i) / total));
}

/** LagKV of one head. */
export function lagkvOracle(
  keys: Vectors,
  values: Vectors,
  { sinks, lag, cross }: { readonly sinks: number; readonly lag: number; readonly cross: boolean },
): Row {
  const n = keys.shape[0],
    d = keys.shape[1];
  if (n < sinks + 2 * lag) return rowOf(n, (i) => (i < sinks ? 1 : (i - sinks) / (n - sinks)));
  const scores = zeros(n);
  ops.assigns(scores, 1);
  for (let from = sinks; from + 2 * lag <= n; from += lag) {
    const part = zeros(lag);
    for (const x of [keys, values]) {
      const spread = rowOf(lag, (i) => {
        const z = rowOf(d, (c) => {
          const next = x
              .lo(from + lag, c)
              .hi(lag, 1)
              .pick(null, 0),
            low = ops.inf(next),
            high = ops.sup(next);
          return high === low ? 0 : (x.get(from + i, c) - low) / (high - low);
        });
        if (d < 2) return 0;
        ops.subseq(z, ops.sum(z) / d);
        return Math.sqrt(ops.norm2squared(z) / (d - 1));
      });
      const top = ops.sup(spread);
      ops.subseq(spread, top);
      ops.expeq(spread);
      ops.mulseq(spread, 0.5 / ops.sum(spread));
      ops.addeq(part, spread);
    }
    const own = Array.from({ length: lag }, (_, i) => part.get(i));
    own.forEach((s, i) => scores.set(from + i, cross ? s : own.filter((t) => t < s).length / lag));
  }
  return scores;
}

/** Q-Filters: minus the inner product of each key `[n, d]` with the filter `[d]`. */
export const qfilterOracle = (keys: NdArray<Float64Array>, filter: NdArray<Float64Array>): number[] =>
  Array.from({ length: keys.shape[0] }, (_, i) => {
    const p = ndarray(new Float64Array(filter.shape[0]), filter.shape as number[]);
    ops.mul(p, keys.pick(i, null), filter);
    return -ops.sum(p);
  });
/** |Q u|, how much of the queries a direction carries. */
export const stretch = (queries: readonly (readonly number[])[], u: readonly number[]): number =>
  Math.hypot(...queries.map((q) => q.reduce((s, x, c) => s + x * u[c], 0)));
