import { kernel } from '@kv/core';

/**
 * V_j = Σ budget_i fresh_i falloff^(j - i) over positions i with i < j <= i + reach, for the position j of every slot.
 *
 * @remarks `budgets` and `fresh` f32 `[1, N]` by position, `positions` u32 `[G, n]`; output f32 `[G, n]`. O(G n reach).
 */
export const vouchers = kernel({
  id: 'vouchers',
  inputs: { budgets: 'f32', fresh: 'f32', positions: 'u32' },
  params: { reach: 'u32', falloff: 'f32' },
  ragged: 'positions',
  output: { shape: ({ positions }) => positions },
  wgsl: /* wgsl */ `
fn run(index: u32) {
  let slots = positions_shape.y;
  output[index] = 0.0;
  if (index % slots >= positions_lengths[index / slots]) { return; }
  let here = positions[index];
  var weight = 1.0;
  var total = 0.0;
  for (var back = 1u; back <= min(params.reach, here); back++) {
    weight *= params.falloff;
    let anchor = here - back;
    if (anchor < min(budgets_shape.y, fresh_shape.y)) { total += budgets[anchor] * fresh[anchor] * weight; }
  }
  output[index] = total;
}`,
  ref({ budgets, fresh, positions: p }, { reach, falloff }, out, lengths) {
    const slots = p.shape[1],
      known = Math.min(budgets.shape[1], fresh.shape[1]);
    for (let index = 0; index < out.length; index++) {
      if (index % slots >= lengths[Math.floor(index / slots)]) continue;
      const here = p.data[index];
      let weight = 1,
        total = 0;
      for (let step = 1; step <= Math.min(reach, here); step++) {
        weight *= falloff;
        if (here - step < known) total += budgets.data[here - step] * fresh.data[here - step] * weight;
      }
      out[index] = total;
    }
  },
});
