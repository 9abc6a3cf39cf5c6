import type { At, Ops, Tensor } from '@kv/core';

interface Layer {
  readonly ops: Ops;
  readonly at: At;
  readonly scores: Tensor;
  readonly budgets: Tensor;
  readonly forced: Tensor | undefined;
}

/**
 * Budgets of a layer's KV heads as given, none above the slots that a head holds, none below those that are forced in
 * it. `[rows, 1]`.
 */
export function budgetsOf({ ops, at, scores, budgets, forced }: Layer, given: readonly number[]): Tensor {
  const rows = budgets.shape[0],
    onRows = (x: Tensor): Tensor => (x.shape[0] > rows ? ops.groupRows('max', x, rows) : x),
    all = ops.fill(ops.add(scores, ops.mul(budgets, 0)), 1);
  // broadcast where query heads choose
  const asked = ops.from({ data: Float32Array.from(given, (x) => Math.min(x, at.slots)), shape: [given.length, 1] });
  const most = ops.min(ops.add(asked, ops.mul(budgets, 0)), ops.reduce('sum', onRows(all), 'slots'));
  return forced ? ops.max(most, ops.reduce('sum', onRows(forced), 'slots')) : most;
}
