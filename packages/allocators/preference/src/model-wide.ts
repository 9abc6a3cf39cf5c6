import { modelAllocator } from '@kv/core';
import type { Kernel, ScoreAllocator, Tensor } from '@kv/core';

/** Halvings that find the border of the best scores: to neighbouring numbers in f32, or 2^-40 of their range. */
const HALVINGS = 40;
const LARGEST = 3.4e38;

/**
 * One budget for the whole model: every slot of every layer and KV head competes, and the best stay wherever they are.
 *
 * @remarks KVzip's budgets (Kim et al. 2025, arXiv:2505.23416) and, over `defensive` and `outputShare`, those of Layer-DefensiveKV (Feng et al. 2025, arXiv:2510.13334), with an exact sum. Forced slots count first;
 * of equal scores those of the first layer and head stay. Scores of different layers are compared as they are. Budgets `[G, 1]` of the sum that comes in. O(40 L G n), no sort.
 */
export const modelWide = (): ScoreAllocator<'modelWide'> => modelAllocator('modelWide', [], (layers) => {
  const { ops } = layers[0]!;
  const rows = layers.map(({ at, scores, forced, banned, budgets }) => {
    const onRows = (kind: 'mean' | 'max', x: Tensor): Tensor => ops.add(x.shape[0]! > at.kvHeads ? ops.groupRows(kind, x, at.kvHeads) : x, ops.mul(budgets, 0));
    const s = onRows('mean', scores), must = forced ? onRows('max', forced) : ops.fill(s, 0), out = banned ? ops.max(must, onRows('max', banned)) : must;
    return { s, sure: ops.reduce('sum', must, 'slots'), open: ops.less(out, 1) };
  });
  const over = (each: (row: (typeof rows)[number]) => Tensor): Tensor => rows.map((row) => ops.reduce('sum', each(row), 'rows')).reduce((a, b) => ops.add(a, b)); // [1, 1]
  const edge = (kind: 'min' | 'max', none: number): Tensor => rows.map(({ s, open }) => ops.reduce(kind, ops.reduce(kind, ops.where(open, s, none), 'slots'), 'rows')).reduce((a, b) => ops.zip(kind, a, b));
  const count = ({ s, open }: (typeof rows)[number], from: Tensor): Tensor => ops.reduce('sum', ops.mul(open, ops.atLeast(s, from)), 'slots'); // [G, 1]
  const want = ops.max(0, ops.sub(layers.map(({ budgets }) => ops.reduce('sum', budgets, 'rows')).reduce((a, b) => ops.add(a, b)), over(({ sure }) => sure)));
  const most = edge('max', -LARGEST);
  let low = ops.min(edge('min', LARGEST), most), high = ops.min(LARGEST, ops.add(ops.add(most, ops.map('abs', most)), 1e-30));
  for (let i = 0; i < HALVINGS; i++) {
    const middle = ops.add(ops.mul(low, 0.5), ops.mul(high, 0.5)), enough = ops.atLeast(over((row) => count(row, middle)), want);
    [low, high] = [ops.where(enough, middle, low), ops.where(enough, high, middle)];
  }
  let rest = ops.max(0, ops.sub(want, over((row) => count(row, high))));
  return rows.map((row) => {
    const above = count(row, high), border = ops.kernel(inOrder, { wants: ops.max(0, ops.sub(count(row, low), above)), rest });
    rest = ops.sub(rest, ops.reduce('sum', border, 'rows'));
    return { budgets: ops.add(row.sure, ops.add(above, border)) };
  });
});

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
