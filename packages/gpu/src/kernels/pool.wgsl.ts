import type { GpuKernel } from '../kernel.ts';
import { LOWEST } from './fold.wgsl.ts';

/** Pools along slots over all but the last `except` valid ones, which keep their number; 0 beyond the valid ones. */
export const pool = (kind: 'mean' | 'max'): GpuKernel => ({
  id: `pool:${kind}`,
  buffers: { x: { view: 'number', ragged: true }, output: ['f32', 'write'] },
  scalars: { half: 'u32', except: 'u32', width: 'f32' },
  operations: ({ count, slots, half }) => count * Math.min(2 * half + 1, slots),
  source: /* wgsl */ `
fn run(index: u32) {
  let row = index / params.slots;
  let slot = index % params.slots;
  let size = x_valid(row);
  let end = size - min(size, params.except);
  var result = 0.0;
  if (slot >= end && slot < size) { result = x_at(row, slot, 0u); }
  if (slot < end) {
    let from_ = x_base(row);
    var all = ${kind === 'max' ? LOWEST : '0.0'};
    for (var i = slot - min(slot, params.half); i < min(end, slot + params.half + 1u); i++) {
      let x = x_get(from_ + i * params.x_slot_step);
      ${kind === 'max' ? 'all = select(all, x, x > all);' : 'all += x;'}
    }
    result = ${kind === 'max' ? 'all' : 'all / params.width'};
  }
  output[index] = result;
}`,
});
