import { greedy } from '@kv/models';

/** Returns -ln of the probability of the next token under a row of logits, in nats. */
export const surprise = (logits: Float32Array, next: number): number => logNorm(logits) - logits[next];

/** A distribution of the next token, to compare others with. */
export interface NextToken {
  readonly likeliest: number;
  /** Returns the Kullback-Leibler divergence of this distribution from that of another row of logits, in nats. */
  divergence(other: Float32Array): number;
}

/** Reads a row of logits as the distribution of the next token. */
export function nextToken(logits: Float32Array): NextToken {
  const nats = logNorm(logits),
    p = Float64Array.from(logits, (x) => Math.exp(x - nats));
  let negativeEntropy = 0;
  for (let i = 0; i < p.length; i++) negativeEntropy += p[i] * (logits[i] - nats);
  return {
    likeliest: greedy(logits),
    divergence(other) {
      let cross = 0;
      for (let i = 0; i < p.length; i++) cross += p[i] * other[i];
      return Math.max(0, negativeEntropy - cross + logNorm(other)); // rounding may leave a little below 0
    },
  };
}

/** Returns the logarithm of the sum of the exponentials of a row. */
function logNorm(logits: Float32Array): number {
  let most = -Infinity,
    sum = 0;
  for (const x of logits) if (x > most) most = x;
  for (const x of logits) sum += Math.exp(x - most);
  return most + Math.log(sum);
}
