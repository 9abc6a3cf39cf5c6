import type { GpuKernel } from '@kv/gpu';
import { LOWEST } from '../wgsl/visible.ts';

/**
 * One element: slot j of one row of running sums, to which the probabilities `exp(score -
 * lse)` of `m` decoded queries are added: over a head, or over the `fold` heads of a group. Scores `[m, heads,
 * stride_of_scores]` and lse `[heads, m]` as split attention left them. Row r of heads / fold is row `r / group * step + r %
 * group + first` of `sums [rows, stride]`.
 */
export const accumulate: GpuKernel<
  'scores' | 'lse' | 'sums',
  'scores_at' | 'score_stride' | 'lse_at' | 'm' | 'heads' | 'fold' | 'slots' | 'stride' | 'group' | 'step' | 'first'
> = {
  id: 'model:accumulate',
  buffers: { scores: 'f32', lse: 'f32', sums: ['f32', 'write'] },
  scalars: {
    scores_at: 'u32',
    score_stride: 'u32',
    lse_at: 'u32',
    m: 'u32',
    heads: 'u32',
    fold: 'u32',
    slots: 'u32',
    stride: 'u32',
    group: 'u32',
    step: 'u32',
    first: 'u32',
  },
  source: /* wgsl */ `
fn run(index: u32) {
  let row = index / params.slots;
  let j = index % params.slots;
  var sum = 0.0;
  for (var h = row * params.fold; h < (row + 1u) * params.fold; h++) {
    for (var r = 0u; r < params.m; r++) {
      let score = scores[params.scores_at + (r * params.heads + h) * params.score_stride + j];
      if (score > ${LOWEST}) { sum += exp(score - lse[params.lse_at + h * params.m + r]); }
    }
  }
  sums[(row / params.group * params.step + row % params.group + params.first) * params.stride + j] += sum;
}`,
};
