import type { GpuKernel } from '@kv/gpu';
import { ORDERED } from '../wgsl/ordered.ts';

/**
 * One workgroup: draws an index of a row of `width` logits with probability proportional to exp(x / temperature), among
 * the `top_k` largest (0: all) and of these among the fewest that have `top_p` of the mass, of equal logits the lower
 * indices, and of these among those with at least `min_p` of the largest one's probability. No sort: the logit at the border is found three bits of its order at a time, by sums over what lies above.
 * Draw number `step` of a `seed` is a hash of both and of the row (Salmon et al. 2011, "Parallel random numbers: as
 * easy as 1, 2, 3": a counter, no state), so that a step's draw does not depend on those before it. NaN is never drawn,
 * a row of NaN gives 0. Sums have one order: the same bits every time.
 */
export const sample: GpuKernel<
  'x' | 'out',
  'x_at' | 'x_stride' | 'width' | 'top_k' | 'seed' | 'step' | 'temperature' | 'top_p' | 'min_p'
> = {
  id: 'model:sample',
  buffers: { x: 'u32', out: ['u32', 'write'] },
  scalars: {
    x_at: 'u32',
    x_stride: 'u32',
    width: 'u32',
    top_k: 'u32',
    seed: 'u32',
    step: 'u32',
    temperature: 'f32',
    top_p: 'f32',
    min_p: 'f32',
  },
  per: 'group',
  source: /* wgsl */ `
${ORDERED}
var<workgroup> lanes: array<f32, 2048>;
var<workgroup> bins: array<f32, 8>;
var<workgroup> tops: array<u32, 256>;
fn mixed(x: u32) -> u32 {
  var h = x;
  h = (h ^ (h >> 16u)) * 0x7feb352du;
  h = (h ^ (h >> 15u)) * 0x846ca68bu;
  return h ^ (h >> 16u);
}
fn key_at(from_: u32, i: u32) -> u32 { return ordered(x[from_ + i]); }
// of a logit by its order, relative to the largest
fn weight(key: u32, top: u32) -> f32 {
  if (key == 0u) { return 0.0; }
  if (key == top) { return 1.0; }
  let bits = select(~key, key & 0x7fffffffu, key >= 0x80000000u);
  let most = select(~top, top & 0x7fffffffu, top >= 0x80000000u);
  if ((bits & 0x7fffffffu) == 0x7f800000u || most == 0x7f800000u) { return 0.0; }
  let below = (bitcast<f32>(bits) - bitcast<f32>(most)) / params.temperature;
  if (below < -87.0) { return 0.0; }
  return exp(below);
}
// sums of eight numbers of every thread, always in the same order, to bins
fn sum_up(lane: u32, mine: array<f32, 8>) {
  workgroupBarrier();
  for (var b = 0u; b < 8u; b++) { lanes[b * 256u + lane] = mine[b]; }
  workgroupBarrier();
  if (lane < 128u) { for (var i = 1u; i < 16u; i++) { lanes[lane * 16u] += lanes[lane * 16u + i]; } }
  workgroupBarrier();
  if (lane < 8u) {
    var sum = 0.0;
    for (var i = 0u; i < 16u; i++) { sum += lanes[lane * 256u + i * 16u]; }
    bins[lane] = sum;
  }
  workgroupBarrier();
}
struct Border { key: u32, above: f32 }
// the order of the last logit that is needed for the target, the highest first, and what lies above it: a count, or a
// mass
fn border_of(lane: u32, from_: u32, top: u32, counting: bool, target_: f32) -> Border {
  var found = Border(0u, 0.0);
  for (var shift = 30i; shift >= 0i; shift -= 3i) {
    var mine = array<f32, 8>();
    for (var i = lane; i < params.width; i += 256u) {
      let key = key_at(from_, i);
      if (key != 0u && (shift == 30i || (key >> u32(shift + 3i)) == (found.key >> u32(shift + 3i)))) { mine[(key >> u32(shift)) & 7u] += select(weight(key, top), 1.0, counting); }
    }
    sum_up(lane, mine);
    var digit = 8u;
    var above = found.above;
    for (var b = 8u; b > 0u; b--) {
      let here = bins[b - 1u];
      if (here > 0.0 && (digit == 8u || above < target_)) {
        found.above = above;
        digit = b - 1u;
        above += here;
      }
    }
    found.key |= min(digit, 7u) << u32(shift);
  }
  return found;
}
fn run(row: u32, lane: u32) {
  let from_ = params.x_at + row * params.x_stride;
  var mine_top = 0u;
  for (var i = lane; i < params.width; i += 256u) { mine_top = max(mine_top, key_at(from_, i)); }
  tops[lane] = mine_top;
  workgroupBarrier();
  var top = 0u;
  for (var i = 0u; i < 256u; i++) { top = max(top, tops[i]); }

  var border = Border(0u, 0.0);
  var ties = 0xffffffffu;
  if (params.top_k > 0u) {
    border = border_of(lane, from_, top, true, f32(params.top_k));
    ties = params.top_k - u32(border.above);
  }
  if (params.top_p < 1.0) {
    var mine = array<f32, 8>();
    for (var i = lane; i < params.width; i += 256u) {
      let key = key_at(from_, i);
      if (key > border.key) { mine[0] += weight(key, top); }
      if (key == border.key) { mine[1] += 1.0; }
    }
    sum_up(lane, mine);
    let all = bins[0] + min(bins[1], f32(ties)) * weight(border.key, top);
    let most = params.top_p * all;
    let nucleus = border_of(lane, from_, top, false, most);
    var need = 1u;
    let each = weight(nucleus.key, top);
    if (each > 0.0) { need = max(1u, u32(clamp(ceil((most - nucleus.above) / each), 1.0, 16777216.0))); }
    if (nucleus.key > border.key) { ties = need; border.key = nucleus.key; } else if (nucleus.key == border.key) { ties = min(ties, need); }
  }

  // a run of places to each thread, in order
  let span = (params.width + 255u) / 256u;
  let first = min(lane * span, params.width);
  let last = min(first + span, params.width);
  var equal = 0u;
  for (var i = first; i < last; i++) { if (key_at(from_, i) == border.key) { equal++; } }
  workgroupBarrier();
  tops[lane] = equal;
  workgroupBarrier();
  var before = 0u;
  for (var i = 0u; i < lane; i++) { before += tops[i]; }
  var mass = 0.0;
  var rank = before;
  for (var i = first; i < last; i++) {
    let key = key_at(from_, i);
    if (key == border.key) { rank++; }
    let w = weight(key, top);
    if (w >= params.min_p && (key > border.key || (key == border.key && rank <= ties))) { mass += w; }
  }
  lanes[lane] = mass;
  if (lane == 0u) { out[row] = 0u; }
  storageBarrier();
  workgroupBarrier();
  var total = 0.0;
  for (var i = 0u; i < 256u; i++) { total += lanes[i]; }
  let drawn = f32(mixed(mixed(mixed(params.seed) ^ params.step) ^ row) >> 8u) * 0x1p-24f * total;
  // the thread in whose run the draw falls: the last with any mass if rounding carries it beyond all
  var sum = 0.0;
  var owner = 256u;
  var start = 0.0;
  for (var i = 0u; i < 256u; i++) {
    if (lanes[i] > 0.0 && (owner == 256u || drawn >= sum)) { owner = i; start = sum; }
    sum += lanes[i];
  }
  if (owner == lane) {
    rank = before;
    for (var i = first; i < last; i++) {
      let key = key_at(from_, i);
      if (key == border.key) { rank++; }
      let w = weight(key, top);
      if (w > 0.0 && w >= params.min_p && (key > border.key || (key == border.key && rank <= ties))) {
        out[row] = i;
        start += w;
        if (drawn < start) { break; }
      }
    }
  }
}`,
};
