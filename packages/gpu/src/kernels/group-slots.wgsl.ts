import { THREADS } from '../kernel.ts';
import type { GpuKernel } from '../kernel.ts';
import { LOWEST } from './fold.wgsl.ts';

/**
 * Mean, sum or max of x over the slots of each group, in slot order; an empty group gives 0. A workgroup owns 256
 * groups of a row, walks over all slots by tiles and looks into those that hold one of its groups: near O(n) if groups
 * are sorted.
 */
export const groupSlots = (kind: 'mean' | 'sum' | 'max'): GpuKernel => ({
  id: `group-slots:${kind}`,
  buffers: { x: { view: 'number', ragged: true }, groups: { view: 'index', ragged: true }, output: ['f32', 'write'] },
  scalars: { groups_count: 'u32' },
  per: 'group',
  source: /* wgsl */ `
var<workgroup> tile_groups: array<u32, ${THREADS}>;
var<workgroup> tile_values: array<f32, ${THREADS}>;
var<workgroup> hits: atomic<u32>;
var<workgroup> wanted: u32;
fn run(group: u32, lane: u32) {
  let tiles = (params.groups_count + ${THREADS - 1}u) / ${THREADS}u;
  let row = group / tiles;
  let first = group % tiles * ${THREADS}u;
  let mine = first + lane;
  let size = min(x_valid(row), groups_valid(row));
  let from_x = x_base(row);
  let from_g = groups_base(row);
  var holds = 0u;
  var all = ${kind === 'max' ? LOWEST : '0.0'};
  for (var start = 0u; start < size; start += ${THREADS}u) {
    if (lane == 0u) { atomicStore(&hits, 0u); }
    workgroupBarrier();
    let slot = start + lane;
    var g = 0xffffffffu;
    if (slot < size) {
      g = groups_get(from_g + slot * params.groups_slot_step);
      tile_values[lane] = x_get(from_x + slot * params.x_slot_step);
      if (g >= first && g - first < ${THREADS}u) { atomicAdd(&hits, 1u); }
    }
    tile_groups[lane] = g;
    workgroupBarrier();
    if (lane == 0u) { wanted = atomicLoad(&hits); }
    if (workgroupUniformLoad(&wanted) > 0u) {
      for (var i = 0u; i < ${THREADS}u; i++) {
        if (tile_groups[i] == mine) { holds++; ${kind === 'max' ? 'all = max(all, tile_values[i]);' : 'all += tile_values[i];'} }
      }
    }
    workgroupBarrier();
  }
  if (mine < params.groups_count) {
    var result = 0.0;
    if (holds > 0u) { result = ${kind === 'mean' ? 'all / f32(holds)' : 'all'}; }
    output[row * params.groups_count + mine] = result;
  }
}`,
});
