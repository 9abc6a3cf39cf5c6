import { kernel, LOWEST } from '@kv/core';
import type { Ops, Tensor } from '@kv/core';
import { borderOfBest } from './search.ts';

const LARGEST = 3.4e38;

/**
 * One layer's scores `[R, n]`, a mask of those that compete (1), and the number of slots of a row already taken,
 * `[R, 1]`.
 */
export interface CompetingSlots {
  readonly scores: Tensor;
  readonly open: Tensor;
  readonly sure: Tensor;
}

/**
 * Returns how many slots each row of each layer keeps, `[R, 1]`, where the scores of all layers compete for `total`
 * `[1, 1]`: the slots already taken, then the best of all, of equal ones those of the first layer and row.
 * O(150 L R n), no sort.
 */
export function shareOfBest(ops: Ops, layers: readonly CompetingSlots[], total: Tensor): readonly Tensor[] {
  const over = (each: readonly Tensor[]): Tensor =>
    each.map((x) => ops.reduce('sum', x, 'rows')).reduce((a, b) => ops.add(a, b)); // [1, 1]
  const edge = (kind: 'min' | 'max', none: number): Tensor =>
    layers
      .map(({ scores, open }) => ops.reduce(kind, ops.reduce(kind, ops.where(open, scores, none), 'slots'), 'rows'))
      .reduce((a, b) => ops.zip(kind, a, b));
  const want = ops.max(0, ops.sub(total, over(layers.map(({ sure }) => sure)))),
    most = edge('max', -LARGEST),
    competing = layers.map(({ scores, open }) => ops.where(open, scores, LOWEST));
  const [low, high] = borderOfBest(
    ops,
    competing,
    want,
    ops.min(edge('min', LARGEST), most),
    ops.min(LARGEST, ops.add(ops.add(most, ops.map('abs', most)), 1e-30)),
  );
  const [reach, above] = [low, high].map((from) => competing.map((x) => ops.sum(ops.atLeast(x, from)))) as [
    Tensor[],
    Tensor[],
  ]; // [R, 1]
  let rest = ops.max(0, ops.sub(want, over(above)));
  return layers.map(({ sure }, l) => {
    const border = ops.kernel(inOrder, { wants: ops.max(0, ops.sub(reach[l], above[l])), rest });
    rest = ops.sub(rest, ops.reduce('sum', border, 'rows'));
    return ops.add(sure, ops.add(above[l], border));
  });
}

/** Shares of `rest` `[1, 1]` when rows are served in order, each at most what it wants, `[G, 1]`. */
export const inOrder = kernel({
  id: 'in-order',
  inputs: { wants: 'f32', rest: 'f32' },
  per: 'row',
  output: { shape: ({ wants }) => [wants[0], 1] },
  wgsl: /* wgsl */ `
fn run(row: u32) {
  var left = rest[0];
  for (var r = 0u; r < row; r++) { left -= wants[r * wants_shape.y]; }
  output[row] = clamp(left, 0.0, wants[row * wants_shape.y]);
}`,
  ref({ wants, rest }, _, out) {
    const width = Math.max(1, wants.shape[1]);
    let left = rest.data[0];
    out.forEach((_, r) => {
      const want = wants.data[r * width];
      out[r] = Math.min(Math.max(left, 0), want);
      left -= want;
    });
  },
});
