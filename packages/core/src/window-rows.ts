import type { Common } from './author.ts';
import { LOWEST } from './cpu/reduce.ts';
import type { Tensor } from './tensor.ts';

/**
 * The attention rows of the last queries one by one, `[H, n]` each, oldest first: causal softmax(q·k / √d) over all slots. For what needs more of
 * the observation window than its column means. O(w H n d); as many rows as there are queries.
 */
export function windowRows({ ops, at, queries: q, keys: k, positions: p }: Common & { readonly queries: Tensor; readonly keys: Tensor; readonly positions: Tensor }): readonly Tensor[] {
  const [H = 1, w = 0, d = 1] = q.shape;
  return Array.from({ length: w }, (_, i) => {
    const one = ops.reshape(ops.take(q, ops.from({ data: Uint32Array.of(i), shape: [1, 1] })), [H, d]);
    return ops.softmax(ops.where(ops.less(p, at.length - w + i + 1), ops.div(ops.dot(one, k), Math.sqrt(d)), LOWEST));
  });
}
