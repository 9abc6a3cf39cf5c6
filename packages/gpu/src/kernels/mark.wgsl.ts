import type { GpuKernel } from '../kernel.ts';

/** 1 at the slots in `kept`, in an output that is 0 before; threads that meet write the same number. */
export const mark: GpuKernel = {
  id: 'mark',
  buffers: { kept: { view: 'index', ragged: true }, output: ['f32', 'write'] },
  scalars: { size: 'u32' },
  source: /* wgsl */ `
fn run(index: u32) {
  let row = index / params.slots;
  let slot = index % params.slots;
  if (slot >= kept_valid(row)) { return; }
  let place = kept_at(row, slot, 0u);
  if (place < params.size) { output[row * params.size + place] = 1.0; }
}`,
};
