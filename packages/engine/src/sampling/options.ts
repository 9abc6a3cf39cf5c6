import { maybe, number, whole } from '@kv/core';
import type { Option, OptionValues } from '@kv/core';

/** What is added to logits, by id. */
export type LogitBias = Readonly<Record<number, number>>;

const LOGIT_BIAS: Option<LogitBias> = {
  default: {},
  says: 'What is added to the logits of ids, from -100, which bans an id in practice, to 100.',
  form: {
    sort: 'text',
    of: 'id=bias',
    want: 'numbers from -100 to 100 by token id, such as 15043=-100,11=5 or {"15043":-100}',
    read: (given) => (biasFault(meant(given)) === undefined ? meant(given) : undefined),
    misread: (given) => biasFault(meant(given)),
  },
};

const meant = (given: unknown): unknown => {
  if (typeof given !== 'string') return given;
  const text = given.trim();
  try {
    if (text.startsWith('{')) return JSON.parse(text) as unknown;
  } catch {
    return undefined;
  }
  const pairs = text.split(',').map((pair) => /^\s*(\d+)\s*=\s*(\S+)\s*$/.exec(pair));
  return pairs.every((pair) => pair !== null)
    ? Object.fromEntries(pairs.map(([, id, bias]) => [id, Number(bias)]))
    : undefined;
};

/** Returns what is wrong with biases, as the end of a sentence that names them, or undefined. */
function biasFault(given: unknown): string | undefined {
  if (typeof given !== 'object' || given === null || Array.isArray(given) || given instanceof Map)
    return `must be ${LOGIT_BIAS.form.want}`;
  for (const [id, bias] of Object.entries(given)) {
    if (!/^(?:0|[1-9]\d{0,9})$/.test(id) || Number(id) >= 2 ** 32)
      return `must have whole numbers of token ids as names, got ${JSON.stringify(id.slice(0, 60))}`;
    if (!(typeof bias === 'number' && bias >= -100 && bias <= 100))
      return `must have numbers from -100 to 100, got ${JSON.stringify(bias)?.slice(0, 60)} for id ${id}`;
  }
  return undefined;
}

/**
 * Options of sampling, in the order in which they act on logits `[vocab]`; each acts on what the one before left.
 *
 * 1. the model (`bannedIds`) and a grammar ban ids; `logitBias` is added;
 * 2. `repetitionPenalty` p: a logit x of an id of the prompt or the answer becomes x / p, or x p where x < 0 (Keskar et
 *    al. 2019, CTRL, section 4.1, with the sign as in transformers);
 * 3. `frequencyPenalty` times how often the answer has an id, and `presencePenalty` if it has it, are subtracted;
 * 4. `temperature` divides the logits; 0 takes the largest, ties to the lower id, and ends here;
 * 5. `topK`, then `topP` of what that left, then `minP`; of equal logits the lower ids stay.
 *
 * Bias before penalties is the order of transformers, vLLM and llama.cpp alike. Temperature before the selections is
 * that of transformers (`TemperatureLogitsWarper`, `TopKLogitsWarper`, `TopPLogitsWarper`, `MinPLogitsWarper`):
 * `topP` and `minP` speak of the probabilities that are drawn from. llama.cpp divides last, so that with a
 * temperature other than 1 its `topP` and `minP` select other ids.
 */
export const SAMPLING = {
  temperature: number(0, 'Divides the logits before a token is drawn; 0 takes the likeliest token.', { least: 0 }),
  topK: whole(0, 'tokens', 'Draw from this many of the likeliest tokens; 0 from all.'),
  topP: number(1, 'Draw from the smallest set of tokens with this probability.', { above: 0, most: 1 }),
  minP: number(0, 'Draw from tokens with at least this share of the likeliest probability.', { least: 0, most: 1 }),
  repetitionPenalty: number(
    1,
    'Divides the logits of tokens that prompt or answer has, and multiplies negative ones: above 1 against repetition.',
    { least: 0.01, most: 100 },
  ),
  frequencyPenalty: number(0, 'Lowers the logit of a token by this for each time that the answer has it.', {
    least: -2,
    most: 2,
  }),
  presencePenalty: number(0, 'Lowers the logits of tokens that the answer has by this.', { least: -2, most: 2 }),
  logitBias: maybe(LOGIT_BIAS, 'no biases'),
  seed: number(0, 'Seed of the draws: the same seed gives the same draws.'),
};

/** Returns the options of sampling that are given among others. */
export const samplingOf = (options: SamplerOptions): SamplerOptions =>
  Object.fromEntries(Object.entries(options).filter(([name, x]) => x !== undefined && Object.hasOwn(SAMPLING, name)));

/** Options of a sampler; greedy by default. */
export interface SamplerOptions extends OptionValues<typeof SAMPLING> {}
