import { causal, causalSum, type CausalKernel } from '../wgsl/causal-sum.ts';

/**
 * One element: a channel of a token's gated short convolution of rows `[B | C | u]`, to `out [m, channels]`: C times the
 * sum of `taps [last + 1, channels]` times z, and a bias, where z is B u of the token and of those before it, the first of
 * which are in `state [last, channels]`. After these, a channel of z of the last tokens, to `next [last, channels]`.
 */
export const convolution: CausalKernel = {
  id: 'model:convolution',
  ...causal,
  source: /* wgsl */ `
${causalSum('x[at + c] * x[at + 2u * params.channels + c]')}
fn run(index: u32) {
  if (joins(index)) { return; }
  let c = index % params.channels;
  let row = index / params.channels;
  out[index] = x[params.x_at + row * params.x_stride + params.channels + c] * (causal_sum(row, c) + bias[c]);
}`,
};
