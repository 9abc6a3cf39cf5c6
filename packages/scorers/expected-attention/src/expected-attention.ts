import {
  checkNumber,
  gram,
  isCount,
  isPositiveInteger,
  keys,
  KvError,
  LOWEST,
  positions,
  quadratic,
  queries,
  rope,
  values,
} from '@kv/core';
import { weigher } from '@kv/core/old';
import type { Rope, Tensor, Weigher } from '@kv/core';
import type { Common, ScoreResult } from '@kv/core/old';
import { ahead, aheadBothWays, past } from './ahead.ts';
import { queryStatistics } from './query-statistics.ts';

export interface ExpectedAttentionStatsOptions {
  /** Positions ahead over which the rotation is averaged. @defaultValue 512 */
  readonly future?: number;
  /** First positions: they stay, and their keys do not count. @defaultValue 4 */
  readonly sinks?: number;
  /** Uses the covariance, not the mean alone. @defaultValue true */
  readonly covariance?: boolean;
  /** Multiplies by the length of the value. @defaultValue true */
  readonly valueNorm?: boolean;
  /** Added to the weights before that. @defaultValue 0 */
  readonly epsilon?: number;
}
export interface ExpectedAttentionOptions extends ExpectedAttentionStatsOptions {
  /**
   * Last queries whose mean and covariance stand for future ones; a prompt no longer than it gives all of its own, but
   * for the sinks'. @defaultValue 1024
   */
  readonly window?: number;
}

type Seen = Common & {
  readonly rope: Rope;
  readonly keys: Tensor;
  readonly values: Tensor;
  readonly positions: Tensor;
};
/** The weights that future queries of this mean `[H, d]` and covariance `[H, d, d]` give, on KV rows. */
function expected(
  ctx: Seen,
  mean: Tensor,
  spread: Tensor | undefined,
  { sinks, valueNorm, epsilon }: Required<ExpectedAttentionStatsOptions>,
): ScoreResult {
  const { ops, at, keys: k, values: v, positions: p } = ctx,
    d = mean.shape[1],
    sink = ops.less(p, sinks);
  const linear = ops.div(ops.dot(mean, k), Math.sqrt(d)),
    logits = spread ? ops.add(linear, ops.div(ops.kernel(quadratic, { x: k, m: spread }), 2 * d)) : linear;
  const a = ops.groupRows('mean', ops.softmax(ops.where(sink, LOWEST, logits)), at.kvHeads);
  return { scores: valueNorm ? ops.mul(ops.add(a, epsilon), ops.norm(v)) : a, forced: sink };
}

function checked(
  name: string,
  { future = 512, sinks = 4, covariance = true, valueNorm = true, epsilon = 0 }: ExpectedAttentionStatsOptions,
): Required<ExpectedAttentionStatsOptions> {
  checkNumber(name, 'future', future, 'a positive whole number of positions', isPositiveInteger);
  checkNumber(name, 'sinks', sinks, 'a whole number of positions', isCount);
  checkNumber(name, 'epsilon', epsilon, 'a number of at least 0', (x) => x >= 0 && x < Infinity);
  return { future, sinks, covariance, valueNorm, epsilon };
}
/** Options as labels show them, and the sinks as a floor. */
const shown = ({ future, sinks, covariance, valueNorm, epsilon }: Required<ExpectedAttentionStatsOptions>) => ({
  future,
  sinks,
  covariance: covariance ? undefined : false,
  valueNorm: valueNorm ? undefined : false,
  epsilon: epsilon || undefined,
});
const atMost =
  (sinks: number) =>
  (n: number): number =>
    Math.min(n, sinks);

/**
 * Expected attention: the weight that a normal distribution of future queries gives a key, E exp(q·k / √d) by mean and
 * covariance of past
 * queries before rotation, turned by the mean rotation of the positions ahead; softmax, mean over the head group, times
 * |v|.
 *
 * @remarks Devoto et al. 2025, arXiv:2510.00636, as kvpress has it. Weights on KV rows `[G, n]`. O(H n d²), and a ring
 * of
 * `window` queries a layer.
 * @throws KvError if `window` or `future` is not a positive whole number, `sinks` not a whole one, or `epsilon`
 * negative.
 */
export function expectedAttention({
  window = 1024,
  ...given
}: ExpectedAttentionOptions = {}): Weigher<'expectedAttention'> {
  checkNumber('expectedAttention', 'window', window, 'a positive whole number of queries', isPositiveInteger);
  const options = checked('expectedAttention', given),
    { future, sinks, covariance } = options;
  return weigher(
    { name: 'expectedAttention', options: { window, ...shown(options) }, floor: atMost(sinks) },
    [queries(window), rope, keys, values, positions],
    (ctx) => {
      const { ops } = ctx,
        { before, counts, count, mean } = past(ctx, sinks),
        [H = 1, , d = 1] = before.shape,
        turned = ahead(ctx, future);
      return expected(
        ctx,
        ops.reshape(turned(mean), [H, d]),
        covariance
          ? ops.div(ops.kernel(gram, { x: turned(ops.scale(ops.sub(before, mean), counts)) }), count)
          : undefined,
        options,
      );
    },
  );
}

/**
 * Expected attention by calibrated statistics: the same with mean and covariance of queries over other texts, from a
 * file beside the model.
 *
 * @remarks Devoto et al. 2025, arXiv:2510.00636, kvpress' ExpectedAttentionStatsPress. Weights on KV rows `[G, n]`. O(H
 * n d²); keeps no queries.
 * @throws KvError if `future` is not a positive whole number, `sinks` not a whole one, `epsilon` negative, or the
 * statistics of another shape.
 */
export function expectedAttentionStats(given: ExpectedAttentionStatsOptions = {}): Weigher<'expectedAttentionStats'> {
  const options = checked('expectedAttentionStats', given),
    { future, sinks, covariance } = options;
  return weigher(
    { name: 'expectedAttentionStats', options: shown(options), floor: atMost(sinks) },
    [queryStatistics, rope, keys, values, positions],
    (ctx) => {
      const {
        ops,
        at: { queryHeads: H, headDim: d },
        queryStatistics: stats,
      } = ctx;
      if (stats.queryHeads !== H || stats.headDim !== d)
        throw new KvError(
          'expectedAttentionStats',
          `expected statistics of ${H} heads with ${d} channels, got ${stats.queryHeads} heads with ${stats.headDim}`,
        );
      const mean = ops.reshape(ahead(ctx, future)(ops.from({ data: stats.mean, shape: [H, 1, d] })), [H, d]);
      return expected(
        ctx,
        mean,
        covariance ? aheadBothWays(ctx, future)(ops.from({ data: stats.covariance, shape: [H, d, d] })) : undefined,
        options,
      );
    },
  );
}
