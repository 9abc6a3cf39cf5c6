import type { Kernel, Ops, Tensor } from '@kv/core';

/** Halvings that find the border of the best scores: to neighbouring numbers in f32, or 2^-40 of their range. */
const HALVINGS = 40;
const LARGEST = 3.4e38;

/** One layer's scores `[R, n]`, which of them compete (1), and how many of a row are taken before, `[R, 1]`. */
export interface Competing { readonly scores: Tensor; readonly open: Tensor; readonly sure: Tensor }

/** How many each row of each layer keeps, `[R, 1]`, where all layers' scores compete for `total` `[1, 1]`: what is sure, then the best of all, of equal ones those of the first layer and row. O(40 L R n), no sort. */
export function shareOfBest(ops: Ops, layers: readonly Competing[], total: Tensor): readonly Tensor[] {
  const over = (each: (layer: Competing) => Tensor): Tensor => layers.map((layer) => ops.reduce('sum', each(layer), 'rows')).reduce((a, b) => ops.add(a, b)); // [1, 1]
  const edge = (kind: 'min' | 'max', none: number): Tensor => layers.map(({ scores, open }) => ops.reduce(kind, ops.reduce(kind, ops.where(open, scores, none), 'slots'), 'rows')).reduce((a, b) => ops.zip(kind, a, b));
  const count = ({ scores, open }: Competing, from: Tensor): Tensor => ops.reduce('sum', ops.mul(open, ops.atLeast(scores, from)), 'slots'); // [R, 1]
  const want = ops.max(0, ops.sub(total, over(({ sure }) => sure)));
  const most = edge('max', -LARGEST);
  let low = ops.min(edge('min', LARGEST), most), high = ops.min(LARGEST, ops.add(ops.add(most, ops.map('abs', most)), 1e-30));
  for (let i = 0; i < HALVINGS; i++) {
    const middle = ops.add(ops.mul(low, 0.5), ops.mul(high, 0.5)), enough = ops.atLeast(over((layer) => count(layer, middle)), want);
    [low, high] = [ops.where(enough, middle, low), ops.where(enough, high, middle)];
  }
  let rest = ops.max(0, ops.sub(want, over((layer) => count(layer, high))));
  return layers.map((layer) => {
    const above = count(layer, high), border = ops.kernel(inOrder, { wants: ops.max(0, ops.sub(count(layer, low), above)), rest });
    rest = ops.sub(rest, ops.reduce('sum', border, 'rows'));
    return ops.add(layer.sure, ops.add(above, border));
  });
}

/** What each row gets of `rest` `[1, 1]` when they are served in order: no more than it wants, `[G, 1]`. */
export const inOrder: Kernel = {
  id: 'in-order', inputs: { wants: 'f32', rest: 'f32' }, params: {}, per: 'row',
  output: { dtype: 'f32', shape: ({ wants }) => [wants![0]!, 1] },
  wgsl: /* wgsl */ `
fn run(row: u32) {
  var left = rest[0];
  for (var r = 0u; r < row; r++) { left -= wants[r * wants_shape.y]; }
  output[row] = clamp(left, 0.0, wants[row * wants_shape.y]);
}`,
  ref({ wants, rest }, _params, out) {
    const width = Math.max(1, wants!.shape[1]!);
    let left = rest!.data[0]!;
    out.forEach((_, r) => { const want = wants!.data[r * width]!; out[r] = Math.min(Math.max(left, 0), want); left -= want; });
  },
};
