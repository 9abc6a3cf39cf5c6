import type { GpuKernel } from '../kernel.ts';

/** 1 in the last `window` valid slots of each row, else 0. */
export const lastSlots: GpuKernel = {
  id: 'last-slots',
  buffers: { like: { view: 'shape', ragged: true }, output: ['f32', 'write'] },
  scalars: { window: 'u32' },
  source: /* wgsl */ `
fn run(index: u32) {
  let slot = index % params.slots;
  let size = like_valid(index / params.slots);
  output[index] = select(0.0, 1.0, slot < size && slot + params.window >= size);
}`,
};
