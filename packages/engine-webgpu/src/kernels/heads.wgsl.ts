import { variants } from '../variants.ts';
import type { GpuKernel } from '@kv/gpu';

/**
 * One element: one number of `heads` heads of `size` from rows of x, to `h * head_step + r * row_step + i`: rows in
 * another layout, such as `[H, m, d]`. `turned`: pairs (i, i + rotary / 2) of every head are rotated by the row's
 * angles, cos and sin `[m, rotary / 2]` (RoFormer, arXiv 2104.09864). `scaled`: every number is multiplied by the row's scale.
 */
export const heads: (
  turned: boolean,
  scaled: boolean,
) => GpuKernel<
  'x' | 'cosines' | 'sines' | 'scales' | 'out',
  'x_at' | 'x_stride' | 'heads' | 'size' | 'rotary' | 'head_step' | 'row_step'
> = variants((turned, scaled) => ({
  id: `model:heads:${turned}:${scaled}`,
  buffers: {
    x: 'f32',
    ...(turned && { cosines: 'f32', sines: 'f32' }),
    ...(scaled && { scales: 'f32' }),
    out: ['f32', 'write'],
  },
  scalars: {
    x_at: 'u32',
    x_stride: 'u32',
    heads: 'u32',
    size: 'u32',
    rotary: 'u32',
    head_step: 'u32',
    row_step: 'u32',
  },
  source: /* wgsl */ `
fn run(index: u32) {
  let i = index % params.size;
  let h = index / params.size % params.heads;
  let r = index / (params.size * params.heads);
  let from_ = params.x_at + r * params.x_stride + h * params.size;
  var value = x[from_ + i];
  ${
    turned
      ? /* wgsl */ `
  let half = params.rotary / 2u;
  if (i < half) { value = value * cosines[r * half + i] - x[from_ + half + i] * sines[r * half + i]; }
  else if (i < params.rotary) { value = value * cosines[r * half + i - half] + x[from_ + i - half] * sines[r * half + i - half]; }`
      : ''
  }
  out[h * params.head_step + r * params.row_step + i] = value${scaled ? ' * scales[r]' : ''};
}`,
}));
