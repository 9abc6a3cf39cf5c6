import type { Common } from './author.ts';
import { LOWEST } from './cpu/reduce.ts';
import type { Tensor } from './tensor.ts';

type Seen = Common & { readonly queries: Tensor; readonly keys: Tensor; readonly positions: Tensor };
function row({ ops, at, queries: q, keys: k, positions: p }: Seen, i: number): Tensor {
  const [H = 1, w = 0, d = 1] = q.shape, one = ops.reshape(ops.take(q, ops.from({ data: Uint32Array.of(i), shape: [1, 1] })), [H, d]);
  return ops.softmax(ops.where(ops.less(p, at.length - w + i + 1), ops.div(ops.dot(one, k), Math.sqrt(d)), LOWEST));
}

/**
 * The attention rows of the last queries one by one, `[H, n]` each, oldest first: causal softmax(q·k / √d) over all slots. For what needs more of
 * the observation window than its column means. O(w H n d); as many rows as there are queries.
 */
export const windowRows = (ctx: Seen): readonly Tensor[] => Array.from({ length: ctx.queries.shape[1] ?? 0 }, (_, i) => row(ctx, i));

/** Σ over these rows of what `each` makes of one, `[H, n]`: no two rows are needed at a time. */
export function windowSum(ctx: Seen, each: (row: Tensor, i: number) => Tensor): Tensor {
  let total = each(row(ctx, 0), 0);
  for (let i = 1; i < (ctx.queries.shape[1] ?? 0); i++) total = ctx.ops.add(total, each(row(ctx, i), i));
  return total;
}
