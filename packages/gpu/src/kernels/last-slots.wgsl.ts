import type { KernelDef } from '../kernel.ts';

/** 1 in the last `window` valid slots of each row, else 0. */
export const lastSlots: KernelDef = {
  id: 'last-slots',
  inputs: { like: 'bits' },
  ragged: ['like'],
  shapes: ['like'],
  outputs: { output: 'f32' },
  params: { window: 'u32' },
  source: /* wgsl */ `
fn run(index: u32) {
  let slot = index % params.slots;
  let size = like_valid(index / params.slots);
  output[index] = select(0.0, 1.0, slot < size && slot + params.window >= size);
}`,
};
