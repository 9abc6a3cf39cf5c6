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
    const [rows = 0, slots = 0] = p.shape,
      known = Math.min(budgets.shape[1], fresh.shape[1]),
      far = Math.min(reach, known),
      vouched = new Float64Array(known + far);
    // by position, so that a slot far from any anchor costs nothing
    for (let i = 0; i < known; i++) {
      const budget = budgets.data[i] * fresh.data[i];
      if (budget === 0) continue;
      let weight = 1;
      for (let step = 1; step <= far; step++) {
        weight *= falloff;
        vouched[i + step] += budget * weight;
      }
    }
    for (let r = 0; r < rows; r++)
      for (let i = r * slots; i < r * slots + lengths[r]; i++) out[i] = vouched[p.data[i]] ?? 0;
  },
});
