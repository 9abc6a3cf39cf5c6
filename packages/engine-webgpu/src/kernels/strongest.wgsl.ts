import { variants } from '../variants.ts';
import type { GpuKernel } from '@kv/gpu';
import { products, QUERIES, SLOTS, STAGES } from '../wgsl/products.ts';
import { readsRows, rowFunctions, rowType, type DeviceRowForm } from '../wgsl/stored-rows.ts';
import { scoreBuffers, scoreScalars, visibilitySource, type ScoreBuffer } from '../wgsl/visible.ts';

export const STRONGEST_QUERIES: number = QUERIES;

export interface StrongestKind {
  readonly headDim: number;
  /** How keys are stored. */
  readonly keys: DeviceRowForm;
  /** Weights per query. */
  readonly most: number;
  /**
   * Whether they may be on any slot before the query's own; otherwise on slots before `first`, and means on the others
   * go to `mean`.
   */
  readonly inside: boolean;
}

/**
 * One workgroup: 16 of m queries over all slots, 64 at a time; weights exp(score - lse) become means over the heads,
 * whose slots are the same. Of each query the `most` largest means above `above`, ties to the lower slot, go to
 * `best [m, 2 most]` as slot and weight alternating, f32, 0 and 0 where there are fewer; means on slots from `first` on
 * go to row `row` + the query's place of `mean [rows, width]`, 0 for what it does not see. q `[H, m, d]`; lse `[H, m]`
 * from `lse_at` on, as attention leaves it. Positions of slots and of queries ascend.
 */
export const strongest: (
  kind: StrongestKind,
) => GpuKernel<
  'q' | 'keys' | ScoreBuffer | 'lse' | 'best' | 'mean',
  keyof typeof scoreScalars | 'lse_at' | 'slots' | 'first' | 'above' | 'row' | 'width'
> = variants(({ headDim: d, keys: form, most, inside }) => ({
  id: `model:strongest:${d}:${form}:${most}:${inside}`,
  buffers: {
    q: 'f32',
    keys: rowType(form),
    ...scoreBuffers({ masked: false }),
    lse: 'f32',
    best: ['f32', 'write'],
    ...(!inside && { mean: ['f32', 'write'] as const }),
  },
  scalars: { ...scoreScalars, lse_at: 'u32', slots: 'u32', first: 'u32', above: 'f32', row: 'u32', width: 'u32' },
  threads: SLOTS,
  per: 'group',
  source: /* wgsl */ `
${visibilitySource({ masked: false })}
${STAGES}
${rowFunctions(form)}${readsRows({ name: 'keys', form, d })}
var<workgroup> means: array<f32, ${QUERIES * SLOTS}>;
var<private> places: array<u32, ${most}>;
var<private> weights: array<f32, ${most}>;
var<private> have: u32;
fn offer(j: u32, w: f32) {
  if (!(w > params.above)) { return; }
  var at = have;
  if (have == ${most}u) {
    if (!(w > weights[${most - 1}])) { return; }
    at = ${most - 1}u;
  } else { have++; }
  for (; at > 0u && w > weights[at - 1u]; at--) { weights[at] = weights[at - 1u]; places[at] = places[at - 1u]; }
  weights[at] = w;
  places[at] = j;
}
fn run(group: u32, lane: u32) {
  let start = group * ${QUERIES}u;
  let stop = min(start + ${QUERIES}u, params.m);
  let own = start + lane;
  have = 0u;
  for (var from_ = 0u; from_ < params.slots; from_ += ${SLOTS}u) {
    let j = from_ + lane;
    var sums = array<f32, ${QUERIES}>();
    let any = positions[from_] <= position_of(stop - 1u);
    for (var h = 0u; any && h < params.heads; h++) {
      let g = h / (params.heads / params.kv_heads);
      let end = lengths[g];
${products({ form, d }, 'from_')}
      for (var i = 0u; i < ${QUERIES}u; i++) {
        let r = start + i;
        if (r < stop && j < end && is_seen(r, h, g, j)) { sums[i] += exp(scored(products[i]) - lse[params.lse_at + h * params.m + r]) / f32(params.heads); }
      }
    }
    workgroupBarrier();
    for (var i = 0u; i < ${QUERIES}u; i++) {
      means[i * ${SLOTS}u + lane] = sums[i];
      ${inside ? '' : 'if (start + i < stop && j >= params.first && j < params.slots) { mean[(params.row + start + i) * params.width + j - params.first] = sums[i]; }'}
    }
    workgroupBarrier();
    if (own < stop && lane < ${QUERIES}u) {
      for (var i = 0u; i < ${SLOTS}u && from_ + i < params.slots; i++) {
        let slot = from_ + i;
        if (${inside ? 'positions[slot] < position_of(own)' : 'slot < params.first'}) { offer(slot, means[lane * ${SLOTS}u + i]); }
      }
    }
  }
  if (own < stop && lane < ${QUERIES}u) {
    for (var k = 0u; k < ${most}u; k++) {
      let at = 2u * (own * ${most}u + k);
      best[at] = select(0.0, f32(places[k]), k < have);
      best[at + 1u] = select(0.0, weights[k], k < have);
    }
  }
}`,
}));
