import type { GpuKernel } from '@kv/gpu';
import { TOTAL } from '../wgsl/total.ts';

/**
 * One workgroup: one run of `size` numbers of a row (the row, or one head of it): x / sqrt(mean(x²) + eps) * gain, to
 * `[m, runs * size]`. There are `gains` numbers of the gain, of one run or of all of a row.
 */
export const rmsNorm: GpuKernel<'x' | 'gain' | 'out', 'x_at' | 'x_stride' | 'runs' | 'size' | 'gains' | 'eps'> = {
  id: 'model:rms-norm',
  buffers: { x: 'f32', gain: 'f32', out: ['f32', 'write'] },
  scalars: { x_at: 'u32', x_stride: 'u32', runs: 'u32', size: 'u32', gains: 'u32', eps: 'f32' },
  threads: 64,
  per: 'group',
  source: /* wgsl */ `
${TOTAL}
fn run(group: u32, lane: u32) {
  let from_ = params.x_at + group / params.runs * params.x_stride + group % params.runs * params.size;
  var sum = 0.0;
  for (var i = lane; i < params.size; i += 64u) { let v = x[from_ + i]; sum += v * v; }
  let scale = inverseSqrt(total(lane, sum) / f32(params.size) + params.eps);
  let first = group * params.size;
  let gained = first % params.gains;
  for (var i = lane; i < params.size; i += 64u) { out[first + i] = x[from_ + i] * scale * gain[gained + i]; }
}`,
};
