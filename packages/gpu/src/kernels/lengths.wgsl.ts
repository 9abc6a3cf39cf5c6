import type { GpuKernel } from '../kernel.ts';

/**
 * Lengths of x for `rows` rows: those of the KV head for each query head, or the number of slots if x is not ragged.
 */
export const lengths: GpuKernel = {
  id: 'lengths',
  buffers: { x: { view: 'shape', ragged: true }, output: ['u32', 'write'] },
  scalars: {},
  source: /* wgsl */ `
fn run(index: u32) { output[index] = x_valid(index); }`,
};
