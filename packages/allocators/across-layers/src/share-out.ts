import { kernel } from '@kv/core';
import { sumOf } from '@kv/core/shared';
import type { StepContext, Tensor, WithRows } from '@kv/core';

/**
 * Whole budgets of the layers: the floor plus the share, by weight, of what the floors leave of the total, rounded
 * down, never above the cap. What caps and rounding leave goes to the layers below their caps in equal parts, the
 * remainder to the first of them. All `[1, L]`; total `[1, 1]`.
 */
export const shareOut = kernel({
  id: 'share-out',
  inputs: { weights: 'f32', floors: 'f32', caps: 'f32', total: 'f32' },
  per: 'row',
  output: { shape: ({ weights }) => weights },
  wgsl: /* wgsl */ `
fn run(row: u32) {
  let L = weights_shape.y;
  var mass = 0.0; var least = 0.0;
  for (var l = 0u; l < L; l++) { mass += weights[l]; least += min(floors[l], caps[l]); }
  let room = max(0.0, floor(total[0]) - least);
  var left = room;
  for (var l = 0u; l < L; l++) {
    let low = min(floors[l], caps[l]);
    let share = select(1.0 / f32(L), weights[l] / mass, mass > 0.0);
    let more = min(floor(share * room), caps[l] - low);
    output[l] = low + more; left -= more;
  }
  for (var round = 0u; round < 2u * L + 2u && left > 0.0; round++) {
    var open = 0.0;
    for (var l = 0u; l < L; l++) { if (output[l] < caps[l]) { open += 1.0; } }
    if (open == 0.0) { break; }
    let part = max(1.0, floor(left / open));
    for (var l = 0u; l < L; l++) { let more = min(min(part, caps[l] - output[l]), left); output[l] += more; left -= more; }
  }
}`,
  ref({ weights, floors, caps, total }, _, out) {
    const w = Array.from(weights.data),
      L = w.length,
      mass = sumOf(w),
      low = Array.from({ length: L }, (_, l) => Math.min(floors.data[l], caps.data[l]));
    const room = Math.max(0, Math.floor(total.data[0]) - sumOf(low));
    let left = room;
    for (let l = 0; l < L; l++) {
      const more = Math.min(
        Math.floor(Math.fround(Math.fround(mass > 0 ? w[l] / mass : 1 / L) * room)),
        caps.data[l] - low[l],
      );
      out[l] = low[l] + more;
      left -= more;
    }
    while (left > 0) {
      const open = Array.from(out).filter((b, l) => b < caps.data[l]).length;
      if (open === 0) break;
      const part = Math.max(1, Math.floor(left / open));
      for (let l = 0; l < L; l++) {
        const more = Math.min(part, caps.data[l] - out[l], left);
        out[l] += more;
        left -= more;
      }
    }
  },
});

/**
 * Returns budgets of every layer by its weight `[1, 1]`, equal for all its KV heads: at least the forced slots, at most
 * the slots that it holds and `most`. What a shorter head cannot hold goes to the others.
 */
export function budgetsByWeight(
  layers: readonly (StepContext & WithRows)[],
  weights: readonly Tensor[],
  window: number,
  most: number = Infinity,
): readonly Tensor[] {
  const [{ ops }] = layers;
  const L = layers.length;
  const heads = layers.map(({ budgets }) => budgets.shape[0]);
  const one = (l: number): Tensor =>
    ops.from({ data: Float32Array.from({ length: L }, (_, i) => Number(i === l)), shape: [1, L] });
  const row = (values: readonly (Tensor | number)[]): Tensor =>
    values.map((x, l) => ops.mul(one(l), x)).reduce((a, b) => ops.add(a, b));
  // counts slots of a head where all layers have as many heads, which hold the same number, else of a layer, so that a
  // short head costs no slot
  const even = layers.every(({ at }, l) => at.aligned && heads[l] === heads[0]);
  const units = heads.map((G) => (even ? 1 : G));
  const all = (x: Tensor): Tensor => ops.reduce(even ? 'mean' : 'sum', x, 'rows');
  const held = layers.map(({ scores }) => ops.sum(ops.fill(scores, 1))); // [G, 1]
  const floors = layers.map(({ budgets, forced }, l) => {
    // a window larger than the budget is no reason to exceed it
    const fair = ops.min(window, ops.map('floor', ops.reduce('mean', budgets, 'rows')));
    return ops.mul(ops.max(fair, forced && ops.reduce('max', ops.count(forced), 'rows')), units[l]);
  });
  const caps = layers.map(({ at }, l) => ops.min(all(held[l]), units[l] * Math.min(at.slots, Math.max(window, most))));
  const total = layers.map(({ budgets }) => all(budgets)).reduce((a, b) => ops.add(a, b));
  const shares = ops.kernel(shareOut, { weights: row(weights), floors: row(floors), caps: row(caps), total });
  return layers.map(({ forced }, l) => {
    const G = heads[l];
    const mine = ops.sum(ops.mul(shares, one(l))); // [1, 1]
    if (even) return ops.broadcast(mine, G);
    const flat = (x: Tensor): Tensor => ops.reshape(x, [1, G]);
    const least = flat(ops.max(ops.min(held[l], ops.map('floor', ops.div(mine, G))), ops.count(forced)));
    const inLayer = { weights: ops.fill(least, 1), floors: least, caps: flat(held[l]), total: mine };
    return ops.reshape(ops.kernel(shareOut, inLayer), [G, 1]);
  });
}
