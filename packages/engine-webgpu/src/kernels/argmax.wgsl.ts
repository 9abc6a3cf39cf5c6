import type { GpuKernel } from '@kv/gpu';
import { ORDERED } from '../wgsl/ordered.ts';

/**
 * One workgroup: the index of the largest number of a row of `width`, ties to the lower index. NaN is below everything,
 * so that a row of NaN gives 0. Works on bits.
 */
export const argmax: GpuKernel<'x' | 'out', 'x_at' | 'x_stride' | 'width'> = {
  id: 'model:argmax',
  buffers: { x: 'u32', out: ['u32', 'write'] },
  scalars: { x_at: 'u32', x_stride: 'u32', width: 'u32' },
  per: 'group',
  source: /* wgsl */ `
${ORDERED}
var<workgroup> keys: array<u32, 256>;
var<workgroup> places: array<u32, 256>;
fn join(lane: u32, from_: u32, step: u32, count: u32) {
  var key = keys[from_];
  var place = places[from_];
  for (var i = 1u; i < count; i++) {
    let k = keys[from_ + i * step];
    let p = places[from_ + i * step];
    if (k > key || (k == key && p < place)) { key = k; place = p; }
  }
  keys[lane] = key;
  places[lane] = place;
}
fn run(group: u32, lane: u32) {
  var key = 0u;
  var place = lane; // lanes beyond the row say 0 at a place beyond it, which loses
  for (var i = lane; i < params.width; i += 256u) {
    let k = ordered(x[params.x_at + group * params.x_stride + i]);
    if (k > key) { key = k; place = i; }
  }
  keys[lane] = key;
  places[lane] = place;
  workgroupBarrier();
  if (lane < 16u) { join(lane, lane, 16u, 16u); }
  workgroupBarrier();
  if (lane == 0u) { join(0u, 0u, 1u, 16u); out[group] = places[0]; }
}`,
};
