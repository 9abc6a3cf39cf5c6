import type { Static } from 'typebox';
import type { Ask } from '../../protocol/ask.ts';
import { chatLogprobs } from '../../protocol/logprobs.ts';
import type { ScoredToken } from '../../protocol/logprobs.ts';
import { accounts, chunks, commonAsk, errorOf, head } from '../../protocol/openai.ts';
import type { Answer, Protocol } from '../../protocol/protocol.ts';
import { Refusal } from '../../protocol/refusal.ts';
import { chatRequest } from './fields.ts';
import { messagesOf } from './messages.ts';

function ask(body: Static<typeof chatRequest>): Ask {
  const { max_tokens: most, max_completion_tokens: newer, logprobs, top_logprobs: top } = body;
  if (top && !logprobs)
    throw new Refusal("'top_logprobs' is expected with 'logprobs': true", { param: 'top_logprobs' });
  if (most !== undefined && newer !== undefined && most !== newer)
    throw new Refusal("'max_tokens' is expected without 'max_completion_tokens', which says something else", {
      param: 'max_tokens',
    });
  return {
    ...commonAsk(body),
    prompt: { messages: messagesOf(body.messages), variables: body.chat_template_kwargs },
    maxNewTokens: newer ?? most,
    usualNewTokens: 256,
    logprobs: logprobs ? (top ?? 0) : undefined,
    names: {
      maxNewTokens: newer === undefined ? 'max_tokens' : 'max_completion_tokens',
      prompt: 'messages',
      one: (i) => `messages[${i}]`,
    },
  };
}

const logprobsOf = ({ asked, tokenizer }: Answer, scored: readonly ScoredToken[] = []): object | null =>
  asked.logprobs === undefined ? null : chatLogprobs(tokenizer, scored);

/** `POST /v1/chat/completions` of OpenAI. */
export const chat: Protocol = {
  path: '/v1/chat/completions',
  body: chatRequest,
  ask: (body) => ask(body as Static<typeof chatRequest>),
  async whole(answer) {
    const choices = Array.from({ length: answer.choices }, () => ({
      content: '',
      scored: [] as ScoredToken[],
      finish: null as string | null,
    }));
    let after = {};
    for await (const event of answer.events)
      if (event.what === 'usage') after = accounts(answer, event.usage);
      else if (event.what === 'end') choices[event.choice].finish = event.finish;
      else {
        choices[event.choice].content += event.text;
        choices[event.choice].scored.push(...(event.scored ?? []));
      }
    return {
      ...head('chatcmpl', 'chat.completion', answer),
      choices: choices.map(({ content, scored, finish }, index) => ({
        index,
        message: { role: 'assistant', content, refusal: null },
        logprobs: logprobsOf(answer, scored),
        finish_reason: finish,
      })),
      ...after,
    };
  },
  frames(answer) {
    const spoken = new Set<number>();
    return chunks(answer, head('chatcmpl', 'chat.completion.chunk', answer), (event) => {
      const role = !spoken.has(event.choice) && { role: 'assistant' },
        text = event.what === 'text' ? event.text : '';
      spoken.add(event.choice);
      return {
        index: event.choice,
        delta: { ...role, ...((text !== '' || role) && { content: text }) },
        logprobs: logprobsOf(answer, event.what === 'text' ? event.scored : []),
        finish_reason: event.what === 'end' ? event.finish : null,
      };
    });
  },
  error: errorOf,
};
