import { kernel } from '@kv/core';

/**
 * The order in which slots are picked: n for the first, n - 1 for the second, and so on until the budget is spent; what
 * is left over holds minus its redundancy, -max(0, max over the picked j of cos(i, j)).
 *
 * Forced slots are picked first, in order, then argmax of s_i - λ max(0, max cos(i, j)), the lower slot of equals,
 * never a banned one.
 *
 * @remarks `scores`, `forced`, `banned` f32 `[r, n]`, unit `signatures` f32 `[r', n, d]` with r' dividing r, `budgets`
 * f32 `[r, 1]`. One pass over the slots a pick: O(k n d) a row by one workgroup, and no memory but the output.
 */
export const greedyOrder = kernel({
  id: 'diversity-greedy',
  inputs: { scores: 'f32', signatures: 'f32', forced: 'f32', banned: 'f32', budgets: 'f32' },
  params: { lambda: 'f32' },
  ragged: 'scores',
  output: { shape: ({ scores }) => scores },
  per: 'group',
  wgsl: /* wgsl */ `
var<workgroup> bounds: vec2<u32>; // valid slots, budget
// order of f32 numbers as u32, -0 and +0 the same
fn ordered(x: f32) -> u32 {
  let bits = bitcast<u32>(x);
  if ((bits << 1u) == 0u) { return 0x80000000u; }
  return select(bits | 0x80000000u, ~bits, (bits >> 31u) == 1u);
}
fn run(row: u32, lane: u32) {
  let n = scores_shape.y;
  let d = signatures_shape.z;
  let base = row * n;
  let vectors = row / (scores_shape.x / signatures_shape.x) * n;
  for (var i = lane; i < n; i += THREADS) { output[base + i] = 0.0; }
  if (lane == 0u) { bounds = vec2<u32>(scores_lengths[row], u32(max(budgets[row], 0.0))); }
  let known = workgroupUniformLoad(&bounds);
  let valid = known.x;
  var last = valid; // the slot picked last; valid: none yet
  for (var taken = 0u; taken < known.y; taken++) {
    var key = 0u;
    var place = valid;
    // each thread looks after every 256th slot
    for (var i = lane; i < valid; i += THREADS) {
      if (output[base + i] > 0.0) { continue; }
      if (last < valid) {
        var cosine = 0.0;
        for (var c = 0u; c < d; c++) { cosine += signatures[(vectors + i) * d + c] * signatures[(vectors + last) * d + c]; }
        output[base + i] = min(output[base + i], -max(cosine, 0.0));
      }
      var mine = 0u; // banned
      if (forced[base + i] != 0.0) { mine = 0xffffffffu; }
      else if (banned[base + i] == 0.0) { mine = ordered(scores[base + i] + params.lambda * output[base + i]); }
      if (mine > key) { key = mine; place = i; }
    }
    last = best(lane, key, place);
    if (last == valid) { return; }
    if (last % THREADS == lane) { output[base + last] = f32(n - taken); }
  }
}`,
  // of pick t the n - t slots that are left: a cosine, the larger of two, the score and its key
  operations({ scores, signatures, budgets }) {
    const [rows = 0, n = 0] = scores.shape,
      d = signatures.shape[2],
      picks = Array.from({ length: rows }, (_, r) => Math.min(n, budgets.data?.[r] ?? n));
    return picks.reduce((sum, k) => sum + ((k * (2 * n - k + 1)) / 2) * (2 * d + 6), 0);
  },
  ref({ scores, signatures, forced, banned, budgets }, { lambda }, out, lengths) {
    const [rows = 0, n = 0] = scores.shape,
      [groups = 1, , d = 0] = signatures.shape,
      v = signatures.data;
    for (let row = 0; row < rows; row++) {
      const base = row * n,
        valid = lengths[row],
        vectors = Math.floor((row * groups) / rows) * n;
      const first = Array.from({ length: valid }, (_, i) => i)
        .filter((i) => forced.data[base + i] !== 0)
        .reverse();
      let last = -1;
      for (let taken = 0; taken < Math.floor(budgets.data[row]); taken++) {
        const given = first.pop();
        let best = given ?? -1,
          top = 0;
        for (let i = 0; i < valid; i++) {
          if (out[base + i] > 0) continue;
          if (last >= 0) {
            let cosine = 0;
            for (let c = 0, a = (vectors + i) * d, b = (vectors + last) * d; c < d; c++) cosine += v[a + c] * v[b + c];
            if (-cosine < out[base + i]) out[base + i] = -cosine;
          }
          const gain = scores.data[base + i] + lambda * out[base + i];
          if (given === undefined && banned.data[base + i] === 0 && (best < 0 || gain > top)) [best, top] = [i, gain];
        }
        if (best < 0) break;
        out[base + best] = n - taken;
        last = best;
      }
    }
  },
});
