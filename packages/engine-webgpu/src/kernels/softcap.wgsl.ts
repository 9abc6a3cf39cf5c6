import type { GpuKernel } from '@kv/gpu';
import { TANH } from '../wgsl/tanh.ts';

/** One element: cap * tanh(x / cap) of rows of `width`, to `[m, width]` (Gemma 2, arXiv 2408.00118, section 2). */
export const softcap: GpuKernel<'x' | 'out', 'x_at' | 'x_stride' | 'width' | 'cap'> = {
  id: 'model:softcap',
  buffers: { x: 'f32', out: ['f32', 'write'] },
  scalars: { x_at: 'u32', x_stride: 'u32', width: 'u32', cap: 'f32' },
  source: /* wgsl */ `
${TANH}
fn run(index: u32) { out[index] = params.cap * tanh_of(x[params.x_at + index / params.width * params.x_stride + index % params.width] / params.cap); }`,
};
