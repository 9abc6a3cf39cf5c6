import type { Ops } from '../tensor/maths.ts';
import type { Tensor } from '../tensor/tensor.ts';
import type { LayerContext } from './layer-context.ts';

/**
 * Returns weights `[rows, n]` of any scale as the weights of one query: each row divided by its sum. Where heads have
 * learned sinks, a row that sums to less than 1 stays as it is, since what is missing is its sink's.
 */
export const shares = (
  { ops, at }: { readonly ops: Ops; readonly at: Pick<LayerContext, 'learnedSinks'> },
  weights: Tensor,
): Tensor =>
  at.learnedSinks ? ops.div(weights, ops.max(ops.reduce('sum', weights, 'slots'), 1)) : ops.simplex(weights);
