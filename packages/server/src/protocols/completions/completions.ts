import type { Static } from 'typebox';
import type { Ask } from '../../protocol/ask.ts';
import { gather } from '../../protocol/gather.ts';
import { completionLogprobs } from '../../protocol/logprobs.ts';
import type { ScoredToken } from '../../protocol/logprobs.ts';
import { accounts, chunks, commonAsk, errorOf, head, NAMES } from '../../protocol/openai.ts';
import type { Answer, Protocol } from '../../protocol/protocol.ts';
import { Refusal } from '../../protocol/refusal.ts';
import { completionRequest } from './fields.ts';

function ask(body: Static<typeof completionRequest>): Ask {
  const { prompt, echo, logprobs, n = 1, best_of } = body;
  if (best_of !== undefined && best_of !== n)
    throw new Refusal(`'best_of' must be ${n}, as many as 'n', since no choices are thrown away, got ${best_of}`, {
      param: 'best_of',
    });
  const prompts = (typeof prompt === 'string' || typeof prompt[0] === 'number' ? [prompt] : prompt) as readonly (
    | string
    | readonly number[]
  )[];
  return {
    ...commonAsk(body),
    prompt: { prompts },
    ...{ tools: [], toolChoice: 'none', parallel: false },
    echo,
    logprobs,
    usualNewTokens: 16,
    names: {
      ...NAMES,
      maxNewTokens: 'max_tokens',
      prompt: 'prompt',
      one: (i) => (prompts.length === 1 ? 'prompt' : `prompt[${i}]`),
    },
  };
}

const logprobsOf = ({ asked, tokenizer }: Answer, scored: readonly ScoredToken[] = []): object | null =>
  asked.logprobs === undefined || scored.length === 0 ? null : completionLogprobs(tokenizer, scored);

/** `POST /v1/completions` of OpenAI. */
export const completions: Protocol = {
  path: '/v1/completions',
  body: completionRequest,
  ask: (body) => ask(body as Static<typeof completionRequest>),
  async whole(answer) {
    const { choices, usage } = await gather(answer);
    return {
      ...head('cmpl', 'text_completion', answer),
      choices: choices.map(({ text, scored, finish }, index) => ({
        index,
        text,
        logprobs: logprobsOf(answer, scored),
        finish_reason: finish,
      })),
      ...accounts(answer, usage),
    };
  },
  frames: (answer) =>
    chunks(answer, head('cmpl', 'text_completion', answer), (event) => [
      {
        index: event.choice,
        text: event.what === 'text' ? event.text : '',
        logprobs: logprobsOf(answer, event.scored),
        finish_reason: event.what === 'end' ? event.finish : null,
      },
    ]),
  error: errorOf,
};
