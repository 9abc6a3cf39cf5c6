import type { StepContext, Tensor, WithRows } from '@kv/core';

/**
 * Returns budgets `[rows, 1]` of a layer from those wanted for its KV heads: at most the slots that a head holds, at
 * least those forced in it.
 */
export function budgetsWithinBounds(
  { ops, at, scores, forced }: StepContext & WithRows,
  wanted: readonly number[],
): Tensor {
  const held = ops.sum(ops.fill(scores, 1)); // [rows, 1]
  const slots = Float32Array.from(wanted, (x) => Math.min(x, at.slots));
  const asked = ops.broadcast(ops.from({ data: slots, shape: [slots.length, 1] }), held.shape[0]);
  return ops.max(ops.min(asked, held), ops.count(forced));
}
