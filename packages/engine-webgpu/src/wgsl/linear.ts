import type { GpuKernel } from '@kv/gpu';

/** What is added to a product before its numbers are written. */
export interface LinearEnd {
  readonly bias: boolean;
  /** Whether rows are added: the residual stream. */
  readonly residual: boolean;
}

/**
 * Scalars of products, which write columns `[out_from, out_from + outputs)` of `[rows, out_stride]`: those of one part
 * of the weight.
 */
export const linearScalars = {
  rows: 'u32',
  outputs: 'u32',
  inputs: 'u32',
  octets: 'u32',
  x_at: 'u32',
  x_stride: 'u32',
  out_from: 'u32',
  out_stride: 'u32',
  residual_at: 'u32',
  residual_stride: 'u32',
} as const;

export type LinearKernel = GpuKernel<
  'x' | 'weights' | 'scales' | 'bias' | 'residual' | 'out',
  keyof typeof linearScalars
>;

export const linearBuffers = ({
  bias,
  residual,
}: LinearEnd): { readonly bias?: string; readonly residual?: string; readonly out: readonly [string, 'write'] } => ({
  ...(bias && { bias: 'f32' }),
  ...(residual && { residual: 'f32' }),
  out: ['f32', 'write'],
});

export const linearEnd = ({ bias, residual }: LinearEnd): string => /* wgsl */ `
fn finish(row: u32, output: u32, sum: f32) {
  if (row >= params.rows || output >= params.outputs) { return; }
  let column = params.out_from + output;
  out[row * params.out_stride + column] = ${residual ? 'residual[params.residual_at + row * params.residual_stride + column] + ' : ''}(sum${bias ? ' + bias[column]' : ''});
}`;
