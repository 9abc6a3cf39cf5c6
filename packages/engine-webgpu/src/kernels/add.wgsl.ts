import type { GpuKernel } from '@kv/gpu';

/** One element: x + y, both rows of `width`, to `[m, width]`. */
export const add: GpuKernel<'x' | 'y' | 'out', 'x_at' | 'x_stride' | 'y_at' | 'y_stride' | 'width'> = {
  id: 'model:add',
  buffers: { x: 'f32', y: 'f32', out: ['f32', 'write'] },
  scalars: { x_at: 'u32', x_stride: 'u32', y_at: 'u32', y_stride: 'u32', width: 'u32' },
  source: /* wgsl */ `
fn run(index: u32) {
  let r = index / params.width;
  let i = index % params.width;
  out[index] = x[params.x_at + r * params.x_stride + i] + y[params.y_at + r * params.y_stride + i];
}`,
};
