import { count } from '@kv/core';
import { range, turn } from '@kv/core/shared';
import type { Ops, Option, StepContext, Rope, Tensor } from '@kv/core';

/**
 * Option: number of future positions to average the rotation over. At most 4096, 8 times the papers' number, since the
 * angles of every position are computed.
 */
export const future: Option<number> = count(512, 'positions', 'Positions ahead over which the rotation is averaged.', {
  most: 4096,
});

/** Mean rows of angles, cached by the angles: layers with the same rotation share them. */
const means = new WeakMap<Float32Array, Float32Array>();
function meanOf(rows: Float32Array, count: number): Float32Array {
  const before = means.get(rows);
  if (before) return before;
  const sums = new Float64Array(rows.length / count);
  for (let i = 0; i < rows.length; i++) sums[i % sums.length] += rows[i];
  const mean = Float32Array.from(sums, (sum) => sum / count);
  means.set(rows, mean);
  return mean;
}

/**
 * Returns a function that turns vectors `[r, m, d]` by R, the mean rotation of the next `future` positions: a rotation
 * with shorter cos and sin. With `transposed` it turns by Rᵀ, so that x·R y = Rᵀ x·y.
 */
export function ahead(
  { ops, at, rope: model }: StepContext & { readonly rope: Rope },
  future: number,
): (x: Tensor, transposed?: boolean) => Tensor {
  const { cos, sin } = model.angles(range(at.length, future)),
    mean = { cos: meanOf(cos, future), sin: meanOf(sin, future) };
  return (x, transposed = false) =>
    turn(
      ops,
      x,
      { rotary: model.rotary, angles: () => (transposed ? { ...mean, sin: mean.sin.map((s) => -s) } : mean) },
      Uint32Array.of(0),
      ops.from({ data: new Uint32Array(x.shape[1]), shape: [1, x.shape[1]] }),
      false,
    );
}

/**
 * Past queries before rotation: the queries `[H, w, d]`, the share of each in their mean `[1, w]`, and that mean
 * `[H, d]`.
 */
export interface PastQueries {
  readonly before: Tensor;
  readonly shares: Tensor;
  readonly mean: Tensor;
}
/**
 * Returns the kept queries turned back to before rotation, without those of the first `sinks` positions in the mean.
 */
export function past(
  { ops, at, queries: q, rope: model }: StepContext & { readonly queries: Tensor; readonly rope: Rope },
  sinks: number,
): PastQueries {
  const [, w = 1] = q.shape,
    first = Math.max(0, at.length - w),
    skip = Math.min(w - 1, Math.max(0, sinks - first));
  const shares = ops.from({ data: new Float32Array(w).fill(1 / (w - skip), skip), shape: [1, w] });
  const before = turn(ops, q, model, range(first, w), ops.from({ data: range(0, w), shape: [1, w] }), true);
  return { before, shares, mean: ops.matmul(shares, before) };
}
/** Returns the zero vector of d channels, `[1, d]`. */
export const origin = (ops: Ops, d: number): Tensor => ops.from({ data: new Float32Array(d), shape: [1, d] });
