import { randomInt } from 'node:crypto';
import { samplingOf } from '@kv/engine';
import type { SamplerOptions } from '@kv/models';
import type { Static, TObject } from 'typebox';
import type { Sampling } from './ask.ts';
import { Refusal } from './refusal.ts';
import type { sampling } from './schema.ts';

/** Fields of a request that say how tokens are drawn. */
type SamplingRequest = Static<TObject<typeof sampling>>;

/**
 * Reads how tokens are drawn, with a seed of chance unless the request has one.
 * @throws Refusal for two names of one penalty that say different things
 */
export function readSampling(request: SamplingRequest): Sampling {
  const { temperature, top_k, top_p: topP, min_p, frequency_penalty, presence_penalty } = request,
    { repetition_penalty: penalty, repeat_penalty: alias, logit_bias, seed = randomInt(2 ** 31) } = request;
  if (penalty !== undefined && alias !== undefined && penalty !== alias)
    throw new Refusal("'repeat_penalty' is expected without 'repetition_penalty', which says something else", {
      param: 'repeat_penalty',
    });
  return {
    // top_p 0 leaves the most likely token
    ...(topP === 0 ? { temperature: 0, topP: 1 } : { temperature, topP }),
    topK: top_k === undefined ? undefined : Math.max(0, top_k),
    minP: min_p,
    repetitionPenalty: penalty ?? alias,
    frequencyPenalty: frequency_penalty,
    presencePenalty: presence_penalty,
    logitBias: logit_bias,
    seed,
  };
}

/** Returns how tokens are drawn where a server has defaults for what a request leaves out. */
export const drawnBy = (asked: Sampling, defaults: SamplerOptions): Sampling => ({
  temperature: 1,
  ...samplingOf(defaults),
  ...samplingOf(asked),
  seed: asked.seed,
});

/** @throws Refusal for a biased id that is not below `vocab` */
export function expectTokens({ logitBias = {} }: Sampling, vocab: number): void {
  const beyond = Object.keys(logitBias).find((id) => Number(id) >= vocab);
  if (beyond !== undefined)
    throw new Refusal(`'logit_bias' must be for token ids below ${vocab}, got ${beyond}`, { param: 'logit_bias' });
}
