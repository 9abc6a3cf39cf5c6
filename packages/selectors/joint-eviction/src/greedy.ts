import { kernel } from '@kv/core';
import { evictBy, FLOOR, oneByOne } from './evict.ts';
import type { Evict } from './evict.ts';
import { kernelBytes } from './greedy-bytes.ts';

/**
 * Order in which slots of each KV head are evicted: -n for the first, 1 - n for the second, and so on until the budget
 * is met; 0 stays. The n slots of a row are followed by the sums that the loop carries: for each query head Σ_E h_i
 * (o - v_i), d numbers, and Σ_E h_i.
 *
 * Banned slots (mask -1) go first, forced ones (mask 1) never; then always the slot with the least joint error together
 * with all evicted slots, as a mean over the query heads of the group, the higher slot of equals.
 *
 * @remarks Simplex `weights` f32 `[W, n]`, their `outputs` `[W, d]`, `values` `[G, n, d]`, `mask` `[r, n]`, `budgets`
 * `[r, 1]`, r dividing W and a multiple of G. Output f32 `[r, n + (W / r)(d + 1)]`. O((n - k) n d) for each query head,
 * no n x n matrix. The host carries inner products of values with the evicted sums, in f32: O((n - k) n d) a KV head
 * and O((n - k) n) a query head; its errors are off by about 1e-6 of the squared lengths of h (v - their mean).
 */
export const evictionOrder = kernel({
  id: 'joint-eviction-greedy',
  inputs: { weights: 'f32', outputs: 'f32', values: 'f32', mask: 'f32', budgets: 'f32' },
  ragged: 'mask',
  output: {
    shape: ({ weights: w, values: v, mask: m }) => [m[0], m[1] + (w[0] / Math.max(1, m[0])) * (v[2] + 1)],
  },
  per: 'group',
  wgsl: /* wgsl */ `
const NONE = 0xffffffffu;
var<workgroup> bounds: vec2<u32>; // valid slots, slots that leave
fn run(row: u32, lane: u32) {
  let n = mask_shape.y;
  let d = values_shape.z;
  let heads = weights_shape.x / mask_shape.x;
  let width = n + heads * (d + 1u);
  let base = row * width;
  let vectors = row / (mask_shape.x / values_shape.x) * n;
  for (var i = lane; i < width; i += THREADS) { output[base + i] = 0.0; }
  if (lane == 0u) { let size = mask_lengths[row]; bounds = vec2<u32>(size, size - min(u32(max(budgets[row], 0.0)), size)); }
  let known = workgroupUniformLoad(&bounds);
  for (var gone = 0u; gone < known.y; gone++) {
    storageBarrier(); // the sums are other threads'
    var key = 0u;
    var place = NONE;
    // each thread looks after every 256th slot: the lowest banned one, or the least error, of equals the higher slot
    for (var j = lane; j < known.x; j += THREADS) {
      if (output[base + j] < 0.0 || mask[row * n + j] > 0.0) { continue; }
      if (mask[row * n + j] < 0.0) { key = NONE; place = j; break; }
      var error = 0.0;
      for (var r = 0u; r < heads; r++) {
        let head = row * heads + r;
        let sum = base + n + r * (d + 1u);
        let h = weights[head * n + j];
        let rest = 1.0 - output[sum + d] - h;
        var square = 0.0;
        for (var c = 0u; c < d; c++) { let x = output[sum + c] + h * (outputs[head * d + c] - values[(vectors + j) * d + c]); square += x * x; }
        error += select(1e30, sqrt(square) / rest, rest > ${FLOOR});
      }
      let mine = 0x7fffffffu - bitcast<u32>(error); // no error is negative
      if (mine >= key) { key = mine; place = 0x7fffffffu - j; }
    }
    let found = best(lane, key, place);
    if (found == NONE) { return; }
    let worst = select(found, 0x7fffffffu - found, found >= 0x40000000u);
    if (worst % THREADS == lane) { output[base + worst] = f32(gone) - f32(n); }
    for (var i = lane; i < heads * (d + 1u); i += THREADS) {
      let head = row * heads + i / (d + 1u);
      let c = i % (d + 1u);
      let h = weights[head * n + worst];
      if (c == d) { output[base + n + i] += h; } else { output[base + n + i] += h * (outputs[head * d + c] - values[(vectors + worst) * d + c]); }
    }
  }
}`,
  // eviction t visits the n - t slots left: for each query head an error over d channels
  operations({ weights, values, mask, budgets }) {
    const [rows = 0, n = 0] = mask.shape,
      d = values.shape[2],
      heads = weights.shape[0] / Math.max(1, rows),
      gone = Array.from({ length: rows }, (_, r) => n - Math.min(n, budgets.data?.[r] ?? 0));
    return gone.reduce((sum, k) => sum + ((k * (2 * n - k + 1)) / 2) * heads * (5 * d + 5), 0);
  },
  ref({ weights, outputs, values, mask, budgets }, _, out, lengths, _products, evict: Evict = oneByOne) {
    const [rows = 0, n = 0] = mask.shape,
      [groups = 1, , d = 0] = values.shape,
      each = weights.shape[0] / Math.max(1, rows),
      width = n + each * (d + 1);
    for (let row = 0; row < rows; row++) {
      const base = row * width,
        valid = lengths[row],
        v = Math.floor((row * groups) / rows) * n * d,
        of = (kind: number): number[] =>
          Array.from({ length: valid }, (_, j) => j).filter((j) => Math.sign(mask.data[row * n + j]) === kind),
        banned = of(-1),
        open = [...banned, ...of(0)],
        order = new Uint32Array(Math.max(0, Math.min(open.length, valid - Math.floor(budgets.data[row]))));
      evict(
        values.data.subarray(v, v + n * d),
        d,
        weights.data.subarray(row * each * n, (row + 1) * each * n),
        outputs.data.subarray(row * each * d, (row + 1) * each * d),
        open,
        banned.length,
        order,
        out.subarray(base + n, base + width) as Float32Array,
      );
      order.forEach((slot, gone) => (out[base + slot] = gone - n));
    }
  },
  wasm: { bytes: kernelBytes, loop: evictBy },
});

/** The first columns of `x`, as many as `like` has, with the lengths of its rows. */
export const firstColumns = kernel({
  id: 'first-columns',
  inputs: { x: 'f32', like: 'f32' },
  ragged: 'like',
  output: { shape: ({ like }) => like },
  wgsl: /* wgsl */ `fn run(index: u32) { output[index] = x[index / like_shape.y * x_shape.y + index % like_shape.y]; }`,
  ref({ x, like }, _, out) {
    const [rows = 0, n = 0] = like.shape,
      width = x.shape[1];
    for (let r = 0; r < rows; r++) out.set(x.data.subarray(r * width, r * width + n), r * n);
  },
});
