import type { GpuKernel } from '@kv/gpu';

/** One element: a number of a row, the sum of what its `ranks` experts give, times their shares, in the order of their numbers. */
export const weighExperts: GpuKernel<'x' | 'shares' | 'out', 'ranks' | 'width'> = {
  id: 'model:weigh-experts',
  buffers: { x: 'f32', shares: 'f32', out: ['f32', 'write'] },
  scalars: { ranks: 'u32', width: 'u32' },
  operations: ({ count, ranks }) => 2 * count * ranks,
  source: /* wgsl */ `
fn run(index: u32) {
  let first = index / params.width * params.ranks;
  let column = index % params.width;
  var sum = 0.0;
  for (var i = first; i < first + params.ranks; i++) { sum += shares[i] * x[i * params.width + column]; }
  out[index] = sum;
}`,
};
