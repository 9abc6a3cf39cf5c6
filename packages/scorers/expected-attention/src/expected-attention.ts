import { checkNumber, gram, isCount, isPositiveInteger, keys, LOWEST, positions, quadratic, queries, rope, turn, values, weigher } from '@kv/core';
import type { Weigher } from '@kv/core';

export interface ExpectedAttentionOptions {
  /** Last queries whose mean and covariance stand for future ones; a prompt no longer than it gives all of its own. @defaultValue 1024 */
  readonly window?: number;
  /** Positions ahead over which the rotation is averaged. @defaultValue 512 */
  readonly future?: number;
  /** First positions: they stay, and neither their queries nor their keys count. @defaultValue 4 */
  readonly sinks?: number;
  /** Uses the covariance, not the mean alone. @defaultValue true */
  readonly covariance?: boolean;
  /** Multiplies by the length of the value. @defaultValue true */
  readonly valueNorm?: boolean;
  /** Added to the weights before that. @defaultValue 0 */
  readonly epsilon?: number;
}

/**
 * Expected attention: the weight that a normal distribution of future queries gives a key, E exp(q·k / √d) by mean and covariance of past
 * queries before rotation, turned by the mean rotation of the positions ahead; softmax, mean over the head group, times |v|.
 *
 * @remarks Devoto et al. 2025, arXiv:2510.00636, as kvpress has it. Weights on KV rows `[G, n]`. O(H n d²), and a ring of
 * `window` queries a layer.
 * @throws KvError if `window` or `future` is not a positive whole number, `sinks` not a whole one, or `epsilon` negative.
 */
export function expectedAttention({ window = 1024, future = 512, sinks = 4, covariance = true, valueNorm = true, epsilon = 0 }: ExpectedAttentionOptions = {}): Weigher<'expectedAttention'> {
  checkNumber('expectedAttention', 'window', window, 'a positive whole number of queries', isPositiveInteger);
  checkNumber('expectedAttention', 'future', future, 'a positive whole number of positions', isPositiveInteger);
  checkNumber('expectedAttention', 'sinks', sinks, 'a whole number of positions', isCount);
  checkNumber('expectedAttention', 'epsilon', epsilon, 'a number of at least 0', (x) => x >= 0 && x < Infinity);
  const options = { window, future, sinks, covariance: covariance ? undefined : false, valueNorm: valueNorm ? undefined : false, epsilon: epsilon || undefined };
  return weigher({ name: 'expectedAttention', options, floor: (n) => Math.min(n, sinks) }, [queries(window), rope, keys, values, positions], ({ ops, at, queries: q, rope: model, keys: k, values: v, positions: p }) => {
    const [H = 1, w = 1, d = 1] = q.shape, places = Uint32Array.from({ length: w }, (_, i) => Math.max(0, at.length - w + i));
    const skip = Math.min(w - 1, places.filter((x) => x < sinks).length), count = w - skip;
    const counts = ops.from({ data: Float32Array.from({ length: w }, (_, i) => Number(i >= skip)), shape: [1, w] });
    const before = turn(ops, q, model, places, ops.from({ data: Uint32Array.from(places.keys()), shape: [1, w] }), true);
    const mean = ops.reshape(ops.matmul(ops.div(counts, count), before), [H, 1, d]);
    // the mean of the rotations ahead is one rotation with shorter cos and sin
    const { cos, sin } = model.angles(Uint32Array.from({ length: future }, (_, i) => at.length + i)), half = model.rotary / 2;
    const average = (x: Float32Array): Float32Array => Float32Array.from({ length: half }, (_, c) => { let sum = 0; for (let i = 0; i < future; i++) sum += x[i * half + c]!; return sum / future; });
    const ahead = { rotary: model.rotary, angles: () => ({ cos: average(cos), sin: average(sin) }) }, forward = (x: typeof q): typeof q => turn(ops, x, ahead, Uint32Array.of(0), ops.from({ data: new Uint32Array(x.shape[1]!), shape: [1, x.shape[1]!] }), false);
    const linear = ops.div(ops.dot(ops.reshape(forward(mean), [H, d]), k), Math.sqrt(d));
    const spread = (): typeof q => ops.kernel(quadratic, { x: k, m: ops.div(ops.kernel(gram, { x: ops.scale(forward(ops.sub(before, mean)), counts) }), 2 * d * count) });
    const logits = covariance ? ops.add(linear, spread()) : linear;
    const a = ops.groupRows('mean', ops.softmax(ops.where(ops.less(p, sinks), LOWEST, logits)), at.kvHeads);
    return { scores: valueNorm ? ops.mul(ops.add(a, epsilon), ops.norm(v)) : a, forced: ops.less(p, sinks) };
  });
}
