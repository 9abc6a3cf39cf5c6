import type { LayerContext, Ops, Tensor } from '@kv/core';
import { shares } from '@kv/core/shared';

/**
 * Returns how far the attention output moves when a set of slots is evicted and the weights of the others are scaled up
 * to sum to 1: c_E = |Σ_{i in E} h_i (o - v_i)| / (1 - Σ_{i in E} h_i), exactly.
 *
 * @param at tells whether heads have learned sinks, see `shares`. @defaultValue they have none
 * @remarks Goel et al. 2025, arXiv:2504.14051, eq. 24. Weights `[H, n]` (any sum), values `[G, n, d]`, `evicted`
 * `[H | G | 1, n]`, 1 = in E. Result `[H, 1]`. O(H n d).
 */
export function jointError(
  ops: Ops,
  weights: Tensor,
  values: Tensor,
  evicted: Tensor,
  at: Pick<LayerContext, 'learnedSinks'> = {},
): Tensor {
  const h = shares({ ops, at }, weights),
    gone = ops.mul(h, evicted);
  const mass = ops.reduce('sum', gone, 'slots'); // [H, 1]
  const o = ops.matmul(h, values),
    lost = ops.matmul(gone, values); // [H, d]
  const error = ops.distance(ops.mul(o, mass), ops.reshape(lost, [lost.shape[0], 1, lost.shape[1]]));
  return ops.div(error, ops.max(ops.sub(1, mass), 2 ** -24));
}
