import { greedy } from '@kv/models';

/** Returns -ln of the probability of the next token under a row of logits, in nats. */
export const surprise = (logits: Float32Array, next: number): number => logNorm(logits) - logits[next];

/** A distribution of the next token, to compare others with. */
export interface NextToken {
  readonly likeliest: number;
  /** Returns the Kullback-Leibler divergence of this distribution from that of another row of logits, in nats. */
  divergence(other: Float32Array): number;
}

/** Tokens below this probability count as one, which can only lower a divergence, and holds few numbers a row. */
const LEAST = 1e-6;

/** Reads a row of logits as the distribution of the next token. */
export function nextToken(logits: Float32Array): NextToken {
  const norm = logNorm(logits),
    least = norm + Math.log(LEAST),
    tokens: number[] = [];
  for (let id = 0; id < logits.length; id++) if (logits[id] >= least) tokens.push(id);
  const nats = tokens.map((id) => norm - logits[id]);
  return {
    likeliest: greedy(logits),
    divergence(other) {
      const otherNorm = logNorm(other);
      let [sum, rest, otherRest] = [0, 1, 1];
      for (let i = 0; i < tokens.length; i++) {
        const p = Math.exp(-nats[i]),
          otherNats = otherNorm - other[tokens[i]];
        sum += p * (otherNats - nats[i]);
        rest -= p;
        otherRest -= Math.exp(-otherNats);
      }
      const [r, q] = [rest, otherRest].map((x) => Math.max(x, 1e-12)); // rounding may leave less than nothing
      return Math.max(0, sum + r * Math.log(r / q));
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
