import ndarray from 'ndarray';
import type { NdArray } from 'ndarray';
import ops from 'ndarray-ops';

type Array1 = NdArray<Float64Array>;
const zeros = (...shape: number[]): Array1 => ndarray(new Float64Array(shape.reduce((a, b) => a * b, 1)), shape);

/**
 * Attention output of one head: the mean of `values [n, d]` weighted by `weights [n]`, or plainly where all weights are
 * 0.
 */
function output(weights: Array1, values: Array1): Array1 {
  const [n = 0, d = 0] = values.shape,
    total = ops.sum(weights),
    out = zeros(d),
    part = zeros(d);
  for (let i = 0; i < n; i++) {
    ops.muls(part, values.pick(i, null), total === 0 ? 1 / n : weights.get(i) / total);
    ops.addeq(out, part);
  }
  return out;
}
function distance(a: Array1, b: Array1): number {
  const difference = zeros(a.shape[0]);
  ops.sub(difference, a, b);
  return ops.norm2(difference);
}

/**
 * Brute force: for every slot, how far the attention output moves when the slot is dropped and the other weights are
 * scaled up to sum to 1.
 */
export function evictionErrors(weights: Array1, values: Array1): number[] {
  const [n = 0, d = 0] = values.shape,
    whole = output(weights, values),
    uniform = ops.sum(weights) === 0;
  return Array.from({ length: n }, (_, j) => {
    const others = Array.from({ length: n }, (_, i) => i).filter((i) => i !== j);
    const w = ndarray(
        Float64Array.from(others, (i) => (uniform ? 1 : weights.get(i))),
        [n - 1],
      ),
      v = zeros(n - 1, d);
    others.forEach((i, at) => ops.assign(v.pick(at, null), values.pick(i, null)));
    return distance(whole, output(w, v));
  });
}

/** FastCAOTE, eq. 8: the odds of a slot's weight times the distance of its value from the mean value. */
export function fastErrors(weights: Array1, values: Array1): number[] {
  const n = weights.shape[0],
    total = ops.sum(weights),
    ones = zeros(n);
  ops.assigns(ones, 1);
  const mean = output(ones, values);
  return Array.from({ length: n }, (_, j) => {
    const h = total === 0 ? 1 / n : weights.get(j) / total;
    return (h / (1 - h)) * distance(mean, values.pick(j, null));
  });
}

/**
 * DropKV: the squared eviction errors of each query of the window `[w, d]`, summed; query i stands at position length -
 * w + i and sees the slots up to its own.
 */
export function windowErrors(
  queries: Array1,
  keys: Array1,
  values: Array1,
  positions: readonly number[],
  length: number,
  { scale, sink = -Infinity }: { readonly scale?: number; readonly sink?: number } = {},
): number[] {
  const [w = 0, d = 0] = queries.shape,
    n = keys.shape[0],
    part = zeros(d),
    total = new Array<number>(n).fill(0);
  for (let i = 0; i < w; i++) {
    const seen = positions.map((p) => p <= length - w + i),
      logits = positions.map((_, j) => {
        ops.mul(part, queries.pick(i, null), keys.pick(j, null));
        return ops.sum(part) * (scale ?? 1 / Math.sqrt(d));
      });
    // a sink is a slot of value 0 that never leaves
    const weights = ndarray(Float64Array.from([...logits.map((x, j) => (seen[j] ? Math.exp(x) : 0)), Math.exp(sink)]), [
        n + 1,
      ]),
      all = zeros(n + 1, d);
    for (let j = 0; j < n; j++) ops.assign(all.pick(j, null), values.pick(j, null));
    if (seen.some(Boolean)) for (const [j, x] of evictionErrors(weights, all).slice(0, n).entries()) total[j] += x * x;
  }
  return total;
}
