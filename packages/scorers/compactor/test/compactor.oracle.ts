import ndarray from 'ndarray';
import type { NdArray } from 'ndarray';
import ops from 'ndarray-ops';

type Vector = NdArray<Float64Array>;
const inner = (a: Vector, b: Vector): number => {
  const p = ndarray(new Float64Array(a.shape[0]), a.shape as number[]);
  ops.mul(p, a, b);
  return ops.sum(p);
};

/**
 * Leverage scores from the fit itself: jitter-regularised least squares of the unit vector e_i on the columns of
 * centred X by conjugate gradients; the fitted value at i.
 */
export function leverageOracle(keys: readonly Vector[], jitter: number): number[] {
  const d = keys[0].shape[0],
    n = keys.length,
    mean = ndarray(new Float64Array(d), [d]);
  for (const k of keys) ops.addeq(mean, k);
  ops.mulseq(mean, 1 / n);
  const x = keys.map((k) => {
    const out = ndarray(new Float64Array(d), [d]);
    ops.sub(out, k, mean);
    return out;
  });
  const apply = (y: Vector): Vector => {
    const out = ndarray(
        Float64Array.from(y.data, (v) => v * jitter),
        [d],
      ),
      part = ndarray(new Float64Array(d), [d]);
    for (const row of x) {
      ops.muls(part, row, inner(row, y));
      ops.addeq(out, part);
    }
    return out;
  };
  return x.map((b) => {
    const y = ndarray(new Float64Array(d), [d]),
      r = ndarray(b.data.slice(), [d]),
      p = ndarray(b.data.slice(), [d]),
      step = ndarray(new Float64Array(d), [d]);
    for (let i = 0; i < 6 * d && inner(r, r) > 1e-26 * Math.max(1e-9, inner(b, b)); i++) {
      const before = inner(r, r),
        q = apply(p),
        alpha = before / inner(p, q);
      ops.muls(step, p, alpha);
      ops.addeq(y, step);
      ops.muls(step, q, alpha);
      ops.subeq(r, step);
      ops.mulseq(p, inner(r, r) / before);
      ops.addeq(p, r);
    }
    return inner(b, y);
  });
}

/** Non-causal attention mass of one query head within chunks of positions, 1 query a position; `keys` by slot. */
export function massOracle(
  queries: readonly Vector[],
  keys: readonly Vector[],
  positions: readonly number[],
  chunk: number,
): number[] {
  const mass = keys.map(() => 0);
  queries.forEach((q, t) => {
    const own = positions.flatMap((p, i) => (Math.floor(p / chunk) === Math.floor(t / chunk) ? [i] : [])),
      e = own.map((i) => Math.exp(inner(q, keys[i]))),
      total = e.reduce((a, b) => a + b, 0);
    own.forEach((i, j) => {
      mass[i] += e[j] / total;
    });
  });
  return mass;
}
export const size = (v: Vector): number => ops.norm2(v);
