import { THREADS } from '../kernel.ts';
import type { GpuKernel } from '../kernel.ts';
import { ORDERED } from './first-bad.wgsl.ts';

/** Passes over a row's slots: one counts, four build the histogram, one writes; and the writes themselves. */
const PASSES = 7;
/** Slots of a long row that a thread has in hand at a time, so that it need not wait for each. */
const SLOTS = 8;

/** Runs statements for each slot of the row, in any order, with its state `s` and the key `k`. */
const forEach = (body: string): string => /* wgsl */ `{
    var i = lane;
    for (; i + ${(SLOTS - 1) * THREADS}u < size; i += ${SLOTS * THREADS}u) {
      var states = array<u32, ${SLOTS}>();
      var keys = array<u32, ${SLOTS}>();
      for (var u = 0u; u < ${SLOTS}u; u++) { states[u] = state(row, i + u * ${THREADS}u); keys[u] = key(row, i + u * ${THREADS}u); }
      for (var u = 0u; u < ${SLOTS}u; u++) { let s = states[u]; let k = keys[u]; ${body} }
    }
    for (; i < size; i += ${THREADS}u) { let s = state(row, i); let k = key(row, i); ${body} }
  }`;

/**
 * Exact top-k of a row by one workgroup: counts the forced and the open slots, finds the key of the last place by four
 * histogram passes of 8 bits, and writes kept slots in ascending order, ties to the lower slots. Integer atomics only.
 */
export const select: GpuKernel = {
  id: 'select',
  buffers: {
    scores: { view: 'bits', ragged: true },
    budgets: { view: 'number' },
    forced: { view: 'number' },
    banned: { view: 'number' },
    enabled: { view: 'number' },
    kept: ['u32', 'write'],
    counts: ['u32', 'write'],
  },
  scalars: {},
  per: 'group',
  operations: ({ rows, slots, channels }) => PASSES * rows * slots * channels,
  source: /* wgsl */ `
${ORDERED}
var<workgroup> bins: array<atomic<u32>, ${THREADS}>;
var<workgroup> scan: array<u32, ${THREADS}>;
var<workgroup> digit: u32;
var<workgroup> left: u32;

// 2 forced, 1 open, 0 out
fn state(row: u32, slot: u32) -> u32 {
  if (params.forced_rows > 0u && forced_at(row, slot, 0u) != 0.0) { return 2u; }
  if (params.banned_rows > 0u && banned_at(row, slot, 0u) != 0.0) { return 0u; }
  return 1u;
}
fn key(row: u32, slot: u32) -> u32 { return ordered(scores_at(row, slot, 0u)); }

// inclusive prefix sums of one number a thread: within sixteens by one thread each, then what stands before
fn prefix(lane: u32, mine: u32) -> u32 {
  workgroupBarrier();
  scan[lane] = mine;
  workgroupBarrier();
  if (lane % 16u == 0u) { for (var i = 1u; i < 16u; i++) { scan[lane + i] += scan[lane + i - 1u]; } }
  workgroupBarrier();
  var sum = scan[lane];
  for (var i = 15u; i < lane - lane % 16u; i += 16u) { sum += scan[i]; }
  return sum;
}
// the sum of all, after prefix
fn total() -> u32 {
  var sum = 0u;
  for (var i = 15u; i < ${THREADS}u; i += 16u) { sum += scan[i]; }
  return sum;
}

fn run(row: u32, lane: u32) {
  var size = scores_valid(row);
  if (params.enabled_rows > 0u && enabled_at(row, 0u, 0u) == 0.0) { size = 0u; }
  var forced_here = 0u;
  var open_here = 0u;
  ${forEach('if (s == 2u) { forced_here++; } else { open_here += s; }')}
  prefix(lane, forced_here);
  let musts = total();
  prefix(lane, open_here);
  let open = total();
  let budget = budgets_at(row, 0u, 0u);
  if (lane == 0u) {
    var most = 0u;
    if (budget >= 1.0) { most = u32(min(budget, 2147483648.0)); }
    left = min(most - min(most, musts), open);
  }
  let room = workgroupUniformLoad(&left); // uniform in the compiler's eyes too

  // border: the smallest kept key; ties: how many that have it are kept
  var border = 0u;
  var ties = room;
  if (room > 0u) {
    for (var shift = 24i; shift >= 0i; shift -= 8i) {
      atomicStore(&bins[lane], 0u);
      workgroupBarrier();
      let want = select(border >> u32(shift + 8i), 0u, shift == 24i);
      ${forEach(`
        let above = select(k >> u32(shift + 8i), 0u, shift == 24i);
        if (above == want && s == 1u) { atomicAdd(&bins[(k >> u32(shift)) & 255u], 1u); }`)}
      workgroupBarrier();
      // bins from the highest: the one where the sum reaches what is left
      let bin = ${THREADS - 1}u - lane;
      let here = atomicLoad(&bins[bin]);
      let upto = prefix(lane, here);
      if (upto >= ties && upto - here < ties) { digit = bin; left = ties - (upto - here); }
      border |= workgroupUniformLoad(&digit) << u32(shift);
      ties = workgroupUniformLoad(&left);
    }
  }

  var written = 0u; // forced and above the border
  var equal = 0u; // at the border
  let each = clamp((size + ${THREADS - 1}u) / ${THREADS}u, 1u, ${SLOTS}u);
  for (var start = 0u; start < size; start += each * ${THREADS}u) {
    let first = start + lane * each;
    var places = array<u32, ${SLOTS}>(); // 1: kept anyway; 65536: at the border
    var mine = 0u;
    for (var u = 0u; u < each && first + u < size; u++) {
      let s = state(row, first + u);
      if (s == 2u) { places[u] = 1u; }
      if (s == 1u && room > 0u) {
        let k = key(row, first + u);
        if (k > border) { places[u] = 1u; } else if (k == border) { places[u] = 65536u; }
      }
      mine += places[u];
    }
    var before = prefix(lane, mine) - mine;
    for (var u = 0u; u < each; u++) {
      let equal_before = equal + (before >> 16u);
      if (places[u] == 1u || (places[u] == 65536u && equal_before < ties)) {
        kept[row * params.slots + written + (before & 65535u) + min(equal_before, ties)] = first + u;
      }
      before += places[u];
    }
    let all = total();
    written += all & 65535u;
    equal += all >> 16u;
  }
  let count = written + min(equal, ties);
  for (var i = count + lane; i < params.slots; i += ${THREADS}u) { kept[row * params.slots + i] = 0u; }
  if (lane == 0u) { counts[row] = count; }
}`,
};
