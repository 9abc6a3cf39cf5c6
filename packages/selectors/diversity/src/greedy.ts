import type { Kernel } from '@kv/core';

/**
 * The order in which slots are picked: n for the first, n - 1 for the second, and so on until the budget is spent; what is left over
 * holds minus its redundancy, -max(0, max over the picked j of cos(i, j)).
 *
 * Forced slots are picked first, in order, then argmax of s_i - λ max(0, max cos(i, j)), the lower slot of equals, never a banned one.
 *
 * @remarks `scores`, `forced`, `banned` f32 `[r, n]`, unit `signatures` f32 `[r', n, d]` with r' dividing r, `budgets` f32 `[r, 1]`. One pass over the
 * slots a pick: O(k n d) a row, and no memory but the output.
 */
export const greedyOrder: Kernel = {
  id: 'diversity-greedy',
  inputs: { scores: 'f32', signatures: 'f32', forced: 'f32', banned: 'f32', budgets: 'f32' }, params: { lambda: 'f32' }, ragged: 'scores',
  output: { dtype: 'f32', shape: ({ scores }) => scores! },
  per: 'row',
  wgsl: /* wgsl */ `
fn run(row: u32) {
  let n = scores_shape.y;
  let d = signatures_shape.z;
  let base = row * n;
  let valid = scores_lengths[row];
  let vectors = row / (scores_shape.x / signatures_shape.x) * n;
  for (var i = 0u; i < n; i++) { output[base + i] = 0.0; }
  let budget = u32(max(budgets[row], 0.0));
  var taken = 0u;
  var next = 0u; // forced slots below it are picked
  var last = valid; // the slot picked last; valid: none yet
  while (taken < budget) {
    var best = valid;
    var top = 0.0;
    while (next < valid && forced[base + next] == 0.0) { next++; }
    for (var i = 0u; i < valid; i++) {
      if (output[base + i] > 0.0) { continue; }
      if (last < valid) {
        var cosine = 0.0;
        for (var c = 0u; c < d; c++) { cosine += signatures[(vectors + i) * d + c] * signatures[(vectors + last) * d + c]; }
        output[base + i] = min(output[base + i], -max(cosine, 0.0));
      }
      let gain = scores[base + i] + params.lambda * output[base + i];
      if (next >= valid && banned[base + i] == 0.0 && (best == valid || gain > top)) { best = i; top = gain; }
    }
    if (next < valid) { best = next; next++; }
    if (best == valid) { return; }
    output[base + best] = f32(n - taken);
    taken++;
    last = best;
  }
}`,
  ref({ scores, signatures, forced, banned, budgets }, { lambda = 0 }, out, lengths) {
    const [rows = 0, n = 0] = scores!.shape, [groups = 1, , d = 0] = signatures!.shape, v = signatures!.data;
    for (let row = 0; row < rows; row++) {
      const base = row * n, valid = lengths[row]!, vectors = Math.floor((row * groups) / rows) * n;
      const first = Array.from({ length: valid }, (_, i) => i).filter((i) => forced!.data[base + i] !== 0).reverse();
      let last = -1;
      for (let taken = 0; taken < Math.floor(budgets!.data[row]!); taken++) {
        const given = first.pop();
        let best = given ?? -1, top = 0;
        for (let i = 0; i < valid; i++) {
          if (out[base + i]! > 0) continue;
          if (last >= 0) {
            let cosine = 0;
            for (let c = 0, a = (vectors + i) * d, b = (vectors + last) * d; c < d; c++) cosine += v[a + c]! * v[b + c]!;
            if (-cosine < out[base + i]!) out[base + i] = -cosine;
          }
          const gain = scores!.data[base + i]! + lambda * out[base + i]!;
          if (given === undefined && banned!.data[base + i] === 0 && (best < 0 || gain > top)) [best, top] = [i, gain];
        }
        if (best < 0) break;
        out[base + best] = n - taken;
        last = best;
      }
    }
  },
};
