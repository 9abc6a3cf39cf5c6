import { variants } from '../variants.ts';
import type { GpuKernel } from '@kv/gpu';

/** With a sigmoid, as 0.5 (1 + tanh u) = 1 / (1 + e^-2u); exponents stop before they overflow. */
const ACTIVATION = {
  silu: 'g / (1.0 + exp(min(-g, 88.0)))',
  gelu: 'g / (1.0 + exp(min(-1.5957691216057308 * (g + 0.044715 * g * g * g), 88.0)))',
} as const;

/**
 * One element: activation(gate) * up, of rows x and `up`, which are in one tensor or `apart`, to `[m, width]`; gelu is the
 * tanh form (arXiv 1606.08415).
 */
export const gatedKernel: (
  activation: 'silu' | 'gelu',
  apart: boolean,
) => GpuKernel<'x' | 'up' | 'out', 'x_at' | 'x_stride' | 'up_at' | 'up_stride' | 'width'> = variants(
  (activation, apart) => ({
    id: `model:gated:${activation}:${apart}`,
    buffers: { x: 'f32', ...(apart && { up: 'f32' as const }), out: ['f32', 'write'] },
    scalars: { x_at: 'u32', x_stride: 'u32', up_at: 'u32', up_stride: 'u32', width: 'u32' },
    source: /* wgsl */ `
fn run(index: u32) {
  let r = index / params.width;
  let i = index % params.width;
  let g = x[params.x_at + r * params.x_stride + i];
  out[index] = ${ACTIVATION[activation]} * ${apart ? 'up' : 'x'}[params.up_at + r * params.up_stride + i];
}`,
  }),
);
