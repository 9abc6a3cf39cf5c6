import type { GpuKernel } from '@kv/gpu';
import { SIGMOID } from '../wgsl/sigmoid.ts';

/** One element: a number of a row times the sigmoid of the row's gate. */
export const gatedRows: GpuKernel<'x' | 'gate' | 'out', 'x_at' | 'x_stride' | 'gate_at' | 'gate_stride' | 'width'> = {
  id: 'model:gated-rows',
  buffers: { x: 'f32', gate: 'f32', out: ['f32', 'write'] },
  scalars: { x_at: 'u32', x_stride: 'u32', gate_at: 'u32', gate_stride: 'u32', width: 'u32' },
  source: /* wgsl */ `
${SIGMOID}
fn run(index: u32) {
  let row = index / params.width;
  let gate_ = gate[params.gate_at + row * params.gate_stride];
  out[index] = x[params.x_at + row * params.x_stride + index % params.width] * sigmoid_of(gate_);
}`,
};
