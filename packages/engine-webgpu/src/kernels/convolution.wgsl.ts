import type { GpuKernel } from '@kv/gpu';

/**
 * One element: a channel of a token's gated short convolution of rows `[B | C | u]`, to `out [m, channels]`: C times the
 * sum of `taps [last + 1, channels]` times z, and a bias, where z is B u of the token and of those before it, the first of
 * which are in `state [last, channels]`. After these, a channel of z of the last tokens, to `next [last, channels]`.
 */
export const convolution: GpuKernel<
  'x' | 'taps' | 'bias' | 'state' | 'out' | 'next',
  'x_at' | 'x_stride' | 'm' | 'channels' | 'last'
> = {
  id: 'model:convolution',
  buffers: { x: 'f32', taps: 'f32', bias: 'f32', state: 'f32', out: ['f32', 'write'], next: ['f32', 'write'] },
  scalars: { x_at: 'u32', x_stride: 'u32', m: 'u32', channels: 'u32', last: 'u32' },
  source: /* wgsl */ `
fn row_of(r: i32, c: u32) -> f32 {
  if (r < 0) { return state[u32(r + i32(params.last)) * params.channels + c]; }
  let at = params.x_at + u32(r) * params.x_stride + c;
  return x[at] * x[at + 2u * params.channels];
}
fn run(index: u32) {
  let c = index % params.channels;
  let row = index / params.channels;
  let first = i32(row) - i32(params.last);
  if (row >= params.m) {
    next[index - params.m * params.channels] = row_of(first, c);
    return;
  }
  var sum = 0.0;
  for (var j = 0u; j <= params.last; j++) { sum += taps[j * params.channels + c] * row_of(first + i32(j), c); }
  out[index] = x[params.x_at + row * params.x_stride + params.channels + c] * (sum + bias[c]);
}`,
};
