import { causal, causalSum, type CausalKernel } from '../wgsl/causal-sum.ts';
import { SIGMOID } from '../wgsl/sigmoid.ts';

/**
 * One element: a channel of a token after the convolution before a memory and SiLU, to `out [m, channels]`: the sum of `taps
 * [last + 1, channels]` times the columns of the token and of those before it, the first of which are in `state [last,
 * channels]`, and a bias. After these, a channel of the columns of the last tokens, to `next [last, channels]`.
 */
export const memoryColumns: CausalKernel = {
  id: 'model:memory-columns',
  ...causal,
  operations: ({ m, channels, last }) => m * channels * (2 * last + 7),
  source: /* wgsl */ `
${SIGMOID}
${causalSum('x[at + c]')}
fn run(index: u32) {
  if (joins(index)) { return; }
  let c = index % params.channels;
  let row = index / params.channels;
  let sum = causal_sum(row, c) + bias[c];
  out[index] = sum * sigmoid_of(sum);
}`,
};
