import {
  biases,
  count,
  flag,
  keys,
  KvError,
  LOWEST,
  number,
  positions,
  queries,
  rope,
  values,
  weightScorer,
  whole,
} from '@kv/core';
import { gram, quadratic, softmaxWithSinks } from '@kv/core/shared';
import type { ForcedEnds, StepContext, Rope, Scores, ResolvedOptions, Tensor } from '@kv/core';
import { ahead, future, origin, past } from './ahead.ts';
import { queryStatistics } from './query-statistics.ts';

const source = 'Devoto et al. 2025, arXiv:2510.00636';
const options = {
  future,
  sinks: whole(4, 'positions', 'First positions: they stay, and their keys do not count.'),
  covariance: flag(true, 'Uses the covariance, not the mean alone.'),
  valueNorm: flag(true, 'Multiplies by the length of the value.'),
  epsilon: number(0, 'Added to the weights before that.', { least: 0 }),
};
const ends = ({ sinks: first }: ResolvedOptions<typeof options>): ForcedEnds => ({ first });

type Seen = StepContext & {
  readonly rope: Rope;
  readonly keys: Tensor;
  readonly values: Tensor;
  readonly positions: Tensor;
  readonly biases: Tensor;
};
/**
 * Weights, on KV rows, under a normal distribution of future queries with mean `[H, d]` and covariance `[H, d, d]`
 * before rotation. Keys are turned back by R, the mean rotation of the future positions: μᵀRᵀk and kᵀR Σ Rᵀk. A head's learned
 * sink, which no query changes, is one more score, and a slot's bias joins its own.
 */
function expected(
  ctx: Seen,
  mean: Tensor,
  spread: Tensor | undefined,
  { sinks, valueNorm, epsilon, future }: ResolvedOptions<typeof options>,
): Scores {
  const { ops, at, keys, values: v, positions: p } = ctx;
  const d = mean.shape[1],
    root = at.scale === undefined ? Math.sqrt(d) : 1 / at.scale,
    square = at.scale === undefined ? d : root ** 2;
  const k = ahead(ctx, future)(keys, true);
  const sink = ops.less(p, sinks);
  const linear = ops.div(ops.dot(mean, k), root);
  const squares = spread && ops.kernel(quadratic, { x: k, m: spread, c: origin(ops, d) });
  const expectedLogits = squares ? ops.add(linear, ops.div(squares, 2 * square)) : linear;
  const logits = at.biased ? ops.add(expectedLogits, ctx.biases) : expectedLogits;
  const a = ops.groupRows('mean', softmaxWithSinks(ctx, ops.where(sink, LOWEST, logits)), at.kvHeads);
  return { scores: valueNorm ? ops.mul(ops.add(a, epsilon), ops.norm(v)) : a, forced: sink };
}

/**
 * Expected attention: the weight E exp(q·k / √d) of a key under a normal distribution of future queries, with mean and
 * covariance of past queries before rotation, turned by the mean rotation of the future positions; then softmax, mean
 * over the head group, times |v|.
 *
 * @remarks Devoto et al. 2025, arXiv:2510.00636, as in kvpress. Weights on KV rows `[G, n]`. O(H n d²), and a ring of
 * `window` queries a layer.
 */
export const expectedAttention = weightScorer(
  'expectedAttention',
  {
    source,
    says: 'The attention that future queries would give, by the mean and covariance of past ones.',
    options: {
      window: count(
        1024,
        'queries',
        "Last queries whose mean and covariance stand for future ones; of a shorter prompt all but the sinks'.",
      ),
      ...options,
    },
    needs: ({ window }) => [queries(window), rope, keys, values, positions, biases],
    ends,
  },
  (ctx, o) => {
    const { ops } = ctx;
    const { before: x, shares: w, mean } = past(ctx, o.sinks);
    const spread = o.covariance ? ops.kernel(gram, { x, w, c: mean }) : undefined;
    return expected(ctx, mean, spread, o);
  },
);

/**
 * Expected attention with calibrated statistics: mean and covariance of queries over other texts, from a file next to
 * the model.
 *
 * @remarks Devoto et al. 2025, arXiv:2510.00636, kvpress' ExpectedAttentionStatsPress. Weights on KV rows `[G, n]`.
 * O(H n d²); keeps no queries.
 * @throws KvError in an event where the statistics have another shape.
 */
export const expectedAttentionStats = weightScorer(
  'expectedAttentionStats',
  {
    source,
    says: 'The attention that future queries would give, by calibrated statistics.',
    options,
    needs: [queryStatistics, rope, keys, values, positions, biases],
    ends,
  },
  (ctx, o) => {
    const { ops, at, queryStatistics: stats } = ctx;
    const { queryHeads: H, headDim: d } = at;
    if (stats.queryHeads !== H || stats.headDim !== d)
      throw new KvError(
        'expectedAttentionStats',
        `expected statistics of ${H} heads with ${d} channels, got ${stats.queryHeads} heads with ${stats.headDim}`,
      );
    const mean = ops.from({ data: stats.mean, shape: [H, d] });
    const spread = o.covariance ? ops.from({ data: stats.covariance, shape: [H, d, d] }) : undefined;
    return expected(ctx, mean, spread, o);
  },
);
