import { KvError, number } from '@kv/core';
import { expectOptions } from '@kv/core/engine';
import { mulberry } from '@kv/core/shared';

/**
 * Returns the index of the largest logit; ties go to the lower id. A logit of -Infinity bans its id.
 *
 * @throws KvError for NaN, for Infinity, and where no logit is a finite number.
 */
export function greedy(logits: Float32Array): number {
  let best = 0;
  for (let i = 0; i < logits.length; i++) {
    if (Number.isNaN(logits[i])) throw noLogits(logits, i);
    if (logits[i] > logits[best]) best = i;
  }
  if (!Number.isFinite(logits[best])) throw noLogits(logits, best);
  return best;
}
const noLogits = (logits: Float32Array, id: number): KvError =>
  new KvError(
    'logits',
    `must be finite numbers, or -Infinity for ids that are banned but not for all, got ${
      logits.length === 0 ? 'none' : `${logits[id]} for id ${id}`
    }: look at what changed them, or at the checkpoint's weights`,
  );

/** Options of sampling. */
export const SAMPLING = {
  temperature: number(0, 'Divides the logits before a token is drawn; 0 takes the likeliest token.', { least: 0 }),
  topP: number(1, 'Draw from the smallest set of tokens with this probability.', { above: 0, most: 1 }),
  seed: number(0, 'Seed of the draws: the same seed gives the same draws.'),
};

/** Options of a sampler. */
export interface SamplerOptions {
  /** Divides the logits; 0 is greedy. @defaultValue 1 */
  readonly temperature?: number;
  /** Samples from the smallest set of ids with at least this probability, in (0, 1]. @defaultValue 1 */
  readonly topP?: number;
  /** Any number; the same seed gives the same draws. @defaultValue 0 */
  readonly seed?: number;
}

/** A sampling rule: `pick` draws on the host; a device draws by the same options, from its own random numbers. */
export interface SamplingRule extends Required<SamplerOptions> {
  /** Returns an id drawn from logits `[vocab]`. @throws KvError for logits that `greedy` refuses */
  pick(logits: Float32Array): number;
}

/**
 * Returns a function that draws ids from logits `[vocab]` with temperature and nucleus sampling.
 *
 * @throws KvError for options out of range, and for logits that `greedy` refuses.
 */
export function sampler(options: SamplerOptions = {}): (logits: Float32Array) => number {
  expectOptions('sampler', SAMPLING, options);
  const { temperature = 1, topP = 1, seed = 0 } = options;
  if (!(temperature >= 0 && Number.isFinite(temperature)))
    throw new KvError('sampler', `temperature must be a number of at least 0, got ${temperature}`);
  if (!(topP > 0 && topP <= 1)) throw new KvError('sampler', `topP must be above 0 and at most 1, got ${topP}`);
  const random = mulberry(seed);
  return (logits) => {
    if (temperature === 0) return greedy(logits);
    const max = logits[greedy(logits)];
    const weights = Float64Array.from(logits, (x) => Math.exp((x - max) / temperature));
    const order = Array.from(weights.keys()).sort((a, b) => logits[b] - logits[a] || a - b);
    const total = weights.reduce((sum, w) => sum + w, 0);
    const nucleus: number[] = [];
    let mass = 0;
    for (const id of order) {
      if (nucleus.length > 0 && mass >= topP * total) break;
      nucleus.push(id);
      mass += weights[id];
    }
    let left = random() * mass;
    for (const id of nucleus) if ((left -= weights[id]) < 0) return id;
    return nucleus.at(-1)!; // never empty: the likeliest id is in it
  };
}
