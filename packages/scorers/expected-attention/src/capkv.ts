import { count, keys, LOWEST, number, positions, queries, rope, values, weightScorer, whole } from '@kv/core';
import { gram, inverse, quadratic } from '@kv/core/shared';
import { ahead, future, origin, past } from './ahead.ts';

/** Added to the weights inside the matrix, as kvpress does. */
const EPSILON = 1e-6;

/**
 * CapKV: how much a value adds to the log-determinant of I + Σ w v vᵀ, the capacity of a head,
 * s = w vᵀ (I + Σ w v vᵀ)^-1 v. The weights are w = exp(tau (cos(mu, k) - max)), with mu the mean past query, turned by
 * the mean rotation of the future positions.
 *
 * @remarks arXiv:2604.25975, as in kvpress' CapPress, mean over the head group. Weights on KV rows `[G, n]`, at most 1;
 * sinks are forced. One d x d matrix a query head, O(H n d² + H d³), and a ring of `window` queries a layer.
 */
export const capkv = weightScorer(
  'capkv',
  {
    source: 'Yang et al. 2026, arXiv:2604.25975',
    says: 'What a value adds to the capacity of its head.',
    options: {
      tau: number(5, 'Sharpness of the weights that the mean query gives.', { least: 0 }),
      window: count(1024, 'queries', 'Last queries whose mean stands for future ones.'),
      future,
      sinks: whole(4, 'positions', 'First positions: they stay, and neither their queries, keys nor values count.'),
    },
    needs: ({ window }) => [queries(window), rope, keys, values, positions],
    ends: ({ sinks: first }) => ({ first }),
  },
  (ctx, { tau, future, sinks }) => {
    const { ops, at, keys: k, values: v, positions: p } = ctx;
    const { mean } = past(ctx, sinks);
    const [H = 1, d = 1] = mean.shape;
    const mu = ahead(ctx, future)(ops.reshape(mean, [H, 1, d]));
    const sink = ops.less(p, sinks);
    const lengths = ops.mul(ops.max(ops.norm(mu), 1e-12), ops.max(ops.norm(k), 1e-12));
    const cosine = ops.max(-1, ops.min(1, ops.div(ops.dot(ops.reshape(mu, [H, d]), k), lengths)));
    const aligned = ops.where(sink, LOWEST, ops.mul(cosine, tau));
    const w = ops.where(sink, 0, ops.exp(ops.min(0, ops.sub(aligned, ops.reduce('max', aligned, 'slots')))));
    const x = { x: v, c: origin(ops, d) };
    const within = ops.where(sink, 0, ops.add(w, EPSILON));
    const m = ops.kernel(inverse, { m: ops.kernel(gram, { ...x, w: within }) }, { jitter: 1 });
    const leverage = ops.max(0, ops.kernel(quadratic, { ...x, m }));
    return { scores: ops.groupRows('mean', ops.mul(w, leverage), at.kvHeads), forced: sink };
  },
);
