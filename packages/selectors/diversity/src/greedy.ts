import { kernel } from '@kv/core';
import { kernelBytes } from './greedy-bytes.ts';
import { oneByOne, pickBy } from './pick.ts';
import type { Pick } from './pick.ts';

/**
 * Order in which slots are picked: n for the first, n - 1 for the second, and so on until the budget is spent; 0 for
 * slots not picked.
 *
 * Forced slots are picked first, in order, then argmax of s_i - λ max(0, max cos(i, j)), the lower slot of equals,
 * never a banned one.
 *
 * @remarks `scores`, `forced`, `banned` f32 `[r, n]`, unit `signatures` f32 `[r', n, d]` with r' dividing r, `budgets`
 * and `lambdas` f32 `[r, 1]`. One pass over the slots for each pick: O(k n d) a row by one workgroup, and no memory but the output.
 * The host's cosines are f32.
 */
export const greedyOrder = kernel({
  id: 'diversity-greedy',
  inputs: { scores: 'f32', signatures: 'f32', forced: 'f32', banned: 'f32', budgets: 'f32', lambdas: 'f32' },
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
      else if (banned[base + i] == 0.0) { mine = ordered(scores[base + i] + lambdas[row] * output[base + i]); }
      if (mine > key) { key = mine; place = i; }
    }
    last = best(lane, key, place);
    if (last == valid) { break; }
    if (last % THREADS == lane) { output[base + last] = f32(n - taken); }
  }
  for (var i = lane; i < valid; i += THREADS) { output[base + i] = max(output[base + i], 0.0); }
}`,
  // pick t visits the n - t slots left: a cosine, the larger of two, the score and its key
  operations({ scores, signatures, budgets }) {
    const [rows = 0, n = 0] = scores.shape,
      d = signatures.shape[2],
      picks = Array.from({ length: rows }, (_, r) => Math.min(n, budgets.data?.[r] ?? n));
    return picks.reduce((sum, k) => sum + ((k * (2 * n - k + 1)) / 2) * (2 * d + 6), 0);
  },
  ref({ scores, signatures, forced, banned, budgets, lambdas }, _, out, lengths, _products, pick: Pick = oneByOne) {
    const [rows = 0, n = 0] = scores.shape,
      [groups = 1, , d = 0] = signatures.shape;
    for (let row = 0; row < rows; row++) {
      const base = row * n,
        from = Math.floor((row * groups) / rows) * n * d,
        first: number[] = [],
        others: number[] = [];
      for (let i = 0; i < lengths[row]; i++)
        if (forced.data[base + i] !== 0) first.push(i);
        else if (banned.data[base + i] === 0) others.push(i);
      const open = [...first, ...others],
        order = new Uint32Array(Math.max(0, Math.min(open.length, Math.floor(budgets.data[row]))));
      pick(
        signatures.data.subarray(from, from + n * d),
        d,
        scores.data.subarray(base, base + n),
        lambdas.data[row],
        open,
        first.length,
        order,
      );
      order.forEach((slot, picked) => (out[base + slot] = n - picked));
    }
  },
  wasm: { bytes: kernelBytes, loop: pickBy },
});
