import type { GpuKernel } from '@kv/gpu';
import { SIGMOID } from '../wgsl/sigmoid.ts';

/** One element: what heads give, times the sigmoid of the gate of its `run` numbers. */
export const outputGate: GpuKernel<'x' | 'gate' | 'out', 'run'> = {
  id: 'model:output-gate',
  buffers: { x: 'f32', gate: 'f32', out: ['f32', 'write'] },
  scalars: { run: 'u32' },
  source: /* wgsl */ `
${SIGMOID}
fn run(index: u32) { out[index] = x[index] * sigmoid_of(gate[index / params.run]); }`,
};
