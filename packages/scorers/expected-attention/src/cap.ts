import {
  checkNumber,
  gram,
  inverse,
  isCount,
  isPositiveInteger,
  keys,
  LOWEST,
  positions,
  quadratic,
  queries,
  rope,
  values,
} from '@kv/core';
import { weigher } from '@kv/core/old';
import type { Weigher } from '@kv/core';
import { ahead, past } from './ahead.ts';

export interface CapOptions {
  /** Sharpness of the weights that the mean query gives. @defaultValue 5 */
  readonly tau?: number;
  /** Last queries whose mean stands for future ones. @defaultValue 1024 */
  readonly window?: number;
  /** Positions ahead over which the rotation is averaged. @defaultValue 512 */
  readonly future?: number;
  /** First positions: they stay, and neither their queries, keys nor values count. @defaultValue 4 */
  readonly sinks?: number;
}

/** Added to the weights inside the matrix, as kvpress does. */
const EPSILON = 1e-6;

/**
 * CapKV: what a value adds to the log-determinant of I + Σ w v vᵀ, the capacity of a head, s = w vᵀ (I + Σ w v vᵀ)^-1
 * v, with weights
 * w = exp(tau (cos(mu, k) - max)) by the mean past query mu, turned by the mean rotation of the positions ahead.
 *
 * @remarks arXiv:2604.25975, as kvpress' CapPress has it, mean over the head group. Weights on KV rows `[G, n]`, at
 * most 1; sinks are forced. One d x d matrix a
 * query head, O(H n d² + H d³), and a ring of `window` queries a layer.
 * @throws KvError if `tau` is not a number of at least 0, `window` or `future` not a positive whole one, or `sinks` not
 * a whole one.
 */
export function cap({ tau = 5, window = 1024, future = 512, sinks = 4 }: CapOptions = {}): Weigher<'cap'> {
  checkNumber('cap', 'tau', tau, 'a number of at least 0', (x) => x >= 0 && x < Infinity);
  checkNumber('cap', 'window', window, 'a positive whole number of queries', isPositiveInteger);
  checkNumber('cap', 'future', future, 'a positive whole number of positions', isPositiveInteger);
  checkNumber('cap', 'sinks', sinks, 'a whole number of positions', isCount);
  return weigher(
    { name: 'cap', options: { tau, window, future, sinks }, floor: (n) => Math.min(n, sinks) },
    [queries(window), rope, keys, values, positions],
    (ctx) => {
      const { ops, at, keys: k, values: v, positions: p } = ctx,
        mu = ahead(ctx, future)(past(ctx, sinks).mean),
        [H = 1, , d = 1] = mu.shape,
        sink = ops.less(p, sinks);
      const lengths = ops.mul(ops.max(ops.norm(mu), 1e-12), ops.max(ops.norm(k), 1e-12));
      const aligned = ops.where(
        sink,
        LOWEST,
        ops.mul(ops.max(-1, ops.min(1, ops.div(ops.dot(ops.reshape(mu, [H, d]), k), lengths))), tau),
      );
      const w = ops.where(sink, 0, ops.exp(ops.min(0, ops.sub(aligned, ops.reduce('max', aligned, 'slots')))));
      const own = ops.kernel(gram, { x: ops.scale(v, ops.where(sink, 0, ops.map('sqrt', ops.add(w, EPSILON)))) });
      const leverage = ops.max(0, ops.kernel(quadratic, { x: v, m: ops.kernel(inverse, { m: own }, { jitter: 1 }) }));
      return { scores: ops.groupRows('mean', ops.mul(w, leverage), at.kvHeads), forced: sink };
    },
  );
}
