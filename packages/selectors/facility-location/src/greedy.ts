import { kernel } from '@kv/core';

/** Cosines this close to each other, or to 1, count as equal: unit vectors in f32 give no more precision. */
const ROUNDING = 2 ** -20;

/** WGSL of both kernels, with one order of operations, so that the gain of a slot never grows, not even by rounding. */
const GAIN = /* wgsl */ `
var<workgroup> parts: array<f32, THREADS>;
fn joined_16(to: u32, first: u32, step: u32) {
  var sum = 0.0;
  for (var i = 0u; i < 16u; i++) { sum += parts[first + i * step]; }
  parts[to] = sum;
}
fn joined(lane: u32, part: f32) -> f32 {
  workgroupBarrier();
  parts[lane] = part;
  workgroupBarrier();
  if (lane < 16u) { joined_16(lane, lane, 16u); }
  workgroupBarrier();
  if (lane == 0u) { joined_16(0u, 0u, 1u); }
  return workgroupUniformLoad(&parts[0]);
}
fn cosine(row: u32, i: u32, j: u32) -> f32 {
  let d = vectors_shape.z;
  let base = row / (weights_shape.x / vectors_shape.x) * vectors_shape.y;
  var sum = 0.0;
  for (var c = 0u; c < d; c++) { sum += vectors[(base + i) * d + c] * vectors[(base + j) * d + c]; }
  return select(sum, 1.0, sum > ${1 - ROUNDING});
}
fn gain(row: u32, i: u32, j: u32, covered: f32) -> f32 {
  let w = weights[row * weights_shape.y + i];
  if (w == 0.0) { return 0.0; }
  let more = cosine(row, i, j) - covered;
  return select(0.0, w * more, more > ${ROUNDING});
}`;

type Numbers = { readonly data: Float32Array; readonly shape: readonly number[] };
/** `GAIN` on the host, over the first `valid` slots of a row. */
function rowOf(weights: Numbers, vectors: Numbers, row: number, valid: number) {
  const [rows = 0, n = 0] = weights.shape;
  const [groups = 1, , d = 0] = vectors.shape;
  const base = Math.floor((row * groups) / rows) * n * d;
  const cosine = (i: number, j: number): number => {
    let sum = 0;
    for (let c = 0; c < d; c++) sum += vectors.data[base + i * d + c] * vectors.data[base + j * d + c];
    return sum > 1 - ROUNDING ? 1 : sum;
  };
  const gain = (j: number, covered: (i: number) => number): number => {
    let sum = 0;
    for (let i = 0; i < valid; i++) {
      const w = weights.data[row * n + i];
      const more = w === 0 ? 0 : cosine(i, j) - covered(i);
      if (more > ROUNDING) sum += w * more;
    }
    return Math.fround(sum);
  };
  return { cosine, gain };
}
/** Number of slots to choose among in a row; 0 where no slot is kept or all are. */
const open = (valid: number, budget: number): number => (budget >= 1 && budget < valid ? valid : 0);

/**
 * Gain of every slot alone, Σ_i w_i max(0, cos(i, j)), f32 `[r n, 1]`; 0 in rows that keep no slot or all.
 *
 * @remarks Weights f32 `[r, n]` of at least 0, unit `vectors` `[r', n, d]` with r' dividing r, `budgets` `[r, 1]`.
 * O(n d) a slot by one workgroup.
 */
export const firstGains = kernel({
  id: 'facility-first-gains',
  inputs: { weights: 'f32', vectors: 'f32', budgets: 'f32' },
  ragged: 'weights',
  output: { dense: true, shape: ({ weights: [rows, n] }) => [rows * n, 1] },
  per: 'group',
  wgsl: /* wgsl */ `${GAIN}
var<workgroup> slots: u32; // that are looked at
fn run(at: u32, lane: u32) {
  let row = at / weights_shape.y;
  let j = at % weights_shape.y;
  if (lane == 0u) {
    let valid = weights_lengths[row];
    slots = select(0u, valid, j < valid && budgets[row] >= 1.0 && budgets[row] < f32(valid));
  }
  let n = workgroupUniformLoad(&slots);
  var part = 0.0;
  for (var i = lane; i < n; i += THREADS) { part += gain(row, i, j, 0.0); }
  let sum = joined(lane, part);
  if (lane == 0u) { output[at] = sum; }
}`,
  operations: ({ weights, vectors }) => weights.shape[0] * weights.shape[1] ** 2 * (2 * vectors.shape[2] + 3),
  ref({ weights, vectors, budgets }, _, out, lengths) {
    const [rows = 0, n = 0] = weights.shape;
    for (let row = 0; row < rows; row++) {
      const valid = open(lengths[row], budgets.data[row]);
      const { gain } = rowOf(weights, vectors, row, valid);
      for (let j = 0; j < valid; j++) out[row * n + j] = gain(j, () => 0);
    }
  },
});

/** Average gain re-evaluations per slot (lazy greedy): 4 to 6 on the embedded model, from an eighth of 512 slots on. */
const LOOKS = 5;

/**
 * Order in which slots are picked, `[r, n, 2]`: n for the first, n - 1 for the second, until the budget is spent, else
 * a number of at most 0. The second number of each pair is the slot's coverage, max(0, max over the picked j of cos(i,
 * j)). Rows that keep no slot or all stay 0.
 *
 * Forced slots (mask 1) are picked first, in order, then always the slot that adds most to Σ_i w_i max over the picked,
 * the lower of equals, never a banned one (mask -1).
 *
 * @remarks Inputs as in `firstGains`; `gains` `[r, n]` is its output, `mask` f32 `[r, n]`. Lazy (Minoux 1978): the gain
 * of a slot never grows, so its last known gain is an upper bound, and only the slot of the largest bound is evaluated
 * again. O(n d) an evaluation, by one workgroup a row.
 */
export const greedyCover = kernel({
  id: 'facility-greedy',
  inputs: { weights: 'f32', vectors: 'f32', gains: 'f32', mask: 'f32', budgets: 'f32' },
  ragged: 'mask',
  output: { shape: ({ mask: [rows, n] }) => [rows, n, 2] },
  per: 'group',
  wgsl: /* wgsl */ `${GAIN}
var<workgroup> bounds: vec2<u32>; // valid slots, budget
fn run(row: u32, lane: u32) {
  let n = mask_shape.y;
  let base = row * n;
  var count = 0.0;
  for (var i = lane; i < n; i += THREADS) {
    output[(base + i) * 2u] = -gains[base + i]; // minus the bound until it is picked
    output[(base + i) * 2u + 1u] = 0.0;
    if (i < mask_lengths[row] && mask[base + i] > 0.0) { count += 1.0; }
  }
  let forced = u32(joined(lane, count));
  if (lane == 0u) {
    let valid = mask_lengths[row];
    let budget = u32(max(budgets[row], 0.0));
    bounds = vec2<u32>(valid, select(0u, budget, budget < valid));
  }
  let known = workgroupUniformLoad(&bounds);
  let valid = known.x;
  var fresh = valid; // of the slots looked at since the last pick the best; valid: none
  var most = 0.0;
  for (var taken = 0u; taken < known.y;) {
    var key = 0u;
    var place = valid;
    for (var i = lane; i < valid; i += THREADS) {
      let bound = -output[(base + i) * 2u];
      if (bound < 0.0 || mask[base + i] < 0.0) { continue; }
      let mine = select(1u + bitcast<u32>(abs(bound)), 0xffffffffu, mask[base + i] > 0.0);
      if (mine > key) { key = mine; place = i; }
    }
    let top = best(lane, key, place);
    if (top == valid) { return; }
    if (taken < forced || top == fresh) {
      for (var i = lane; i < valid; i += THREADS) {
        output[(base + i) * 2u + 1u] = max(output[(base + i) * 2u + 1u], cosine(row, i, top));
      }
      if (top % THREADS == lane) { output[(base + top) * 2u] = f32(n - taken); }
      taken++;
      fresh = valid;
    } else {
      var part = 0.0;
      for (var i = lane; i < valid; i += THREADS) { part += gain(row, i, top, output[(base + i) * 2u + 1u]); }
      let now = joined(lane, part);
      if (top % THREADS == lane) { output[(base + top) * 2u] = -now; }
      if (fresh == valid || now > most || (now == most && top < fresh)) { fresh = top; most = now; }
    }
  }
}`,
  // each pick: the slots left, and the coverage of all; each evaluation: the slots left, and the gain of one
  operations({ mask, vectors, budgets }) {
    const [rows = 0, n = 0] = mask.shape;
    const d = vectors.shape[2];
    const picks = Array.from({ length: rows }, (_, r) => Math.min(n, budgets.data?.[r] ?? n));
    return picks.reduce((sum, k) => sum + k * n * (2 * d + 2) + LOOKS * n * n * (2 * d + 4), 0);
  },
  ref({ weights, vectors, gains, mask, budgets }, _, out, lengths) {
    const [rows = 0, n = 0] = mask.shape;
    for (let row = 0; row < rows; row++) {
      const at = (i: number): number => (row * n + i) * 2;
      const valid = lengths[row];
      const { cosine, gain } = rowOf(weights, vectors, row, valid);
      const slots = Array.from({ length: valid }, (_slot, i) => i);
      for (const i of slots) out[at(i)] = -gains.data[row * n + i];
      const forced = slots.filter((i) => mask.data[row * n + i] > 0).reverse();
      let left = slots.filter((i) => mask.data[row * n + i] === 0);
      let fresh = -1;
      const wider = (a: number, b: number): number => (out[at(b)] < out[at(a)] ? b : a);
      for (let taken = 0; taken < (open(valid, budgets.data[row]) && Math.floor(budgets.data[row])); ) {
        const must = forced.pop();
        const top = must ?? (left.length > 0 ? left.reduce(wider) : -1);
        if (top < 0) break;
        if (must === undefined && top !== fresh) {
          out[at(top)] = -gain(top, (i) => out[at(i) + 1]);
          fresh = [fresh, top].filter((i) => i >= 0).sort((a, b) => out[at(a)] - out[at(b)] || a - b)[0];
          continue;
        }
        for (const i of slots) out[at(i) + 1] = Math.max(out[at(i) + 1], cosine(i, top));
        out[at(top)] = n - taken++;
        left = left.filter((i) => i !== top);
        fresh = -1;
      }
    }
  },
});
