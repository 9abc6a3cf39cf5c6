import type { GpuKernel } from '@kv/gpu';

/** One element: x * by of rows of `width`, to `[m, width]`. */
export const scale: GpuKernel<'x' | 'out', 'x_at' | 'x_stride' | 'width' | 'by'> = {
  id: 'model:scale',
  buffers: { x: 'f32', out: ['f32', 'write'] },
  scalars: { x_at: 'u32', x_stride: 'u32', width: 'u32', by: 'f32' },
  threads: 256,
  per: 'element',
  source: /* wgsl */ `
fn run(index: u32) { out[index] = params.by * x[params.x_at + index / params.width * params.x_stride + index % params.width]; }`,
};
