import type { GpuKernel } from '@kv/gpu';

/** A kernel of a causal convolution of rows x, from `state` to `next`. */
export type CausalKernel = GpuKernel<
  'x' | 'taps' | 'bias' | 'state' | 'out' | 'next',
  'x_at' | 'x_stride' | 'm' | 'channels' | 'last'
>;

/** The buffers and scalars of such a kernel. */
export const causal: Pick<CausalKernel, 'buffers' | 'scalars'> = {
  buffers: { x: 'f32', taps: 'f32', bias: 'f32', state: 'f32', out: ['f32', 'write'], next: ['f32', 'write'] },
  scalars: { x_at: 'u32', x_stride: 'u32', m: 'u32', channels: 'u32', last: 'u32' },
};

/**
 * WGSL for one element of a causal convolution over columns of m tokens, the first of which stand after `state [last,
 * channels]`: `causal_sum(row, c)` is the sum of `taps [last + 1, channels]` times the columns that end with the token's,
 * and elements from `m * channels` on are the columns that the next tokens stand after, which `joins` writes to `next`.
 *
 * @param column expression of channel `c` of a token's column, whose row begins at `at` in x
 */
export const causalSum = (column: string): string => /* wgsl */ `
fn column_of(r: i32, c: u32) -> f32 {
  if (r < 0) { return state[u32(r + i32(params.last)) * params.channels + c]; }
  let at = params.x_at + u32(r) * params.x_stride;
  return ${column};
}
fn causal_sum(row: u32, c: u32) -> f32 {
  let first = i32(row) - i32(params.last);
  var sum = 0.0;
  for (var j = 0u; j <= params.last; j++) { sum += taps[j * params.channels + c] * column_of(first + i32(j), c); }
  return sum;
}
fn joins(index: u32) -> bool {
  let row = index / params.channels;
  if (row < params.m) { return false; }
  next[index - params.m * params.channels] = column_of(i32(row) - i32(params.last), index % params.channels);
  return true;
}`;
