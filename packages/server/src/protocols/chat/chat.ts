import type { Static } from 'typebox';
import type { Ask } from '../../protocol/ask.ts';
import { gather } from '../../protocol/gather.ts';
import type { GatheredChoice } from '../../protocol/gather.ts';
import { chatLogprobs } from '../../protocol/logprobs.ts';
import type { ScoredToken } from '../../protocol/logprobs.ts';
import { accounts, chunks, commonAsk, errorOf, formOf, head, NAMES } from '../../protocol/openai.ts';
import type { Answer, Protocol } from '../../protocol/protocol.ts';
import { Refusal } from '../../protocol/refusal.ts';
import { joinedEvents } from '../../protocol/text-join.ts';
import type { ChoiceEvent } from '../../run/answer-event.ts';
import { chatRequest } from './fields.ts';
import { messagesOf } from './messages.ts';

function ask(body: Static<typeof chatRequest>): Ask {
  const { max_tokens: most, max_completion_tokens: newer, logprobs, top_logprobs: top } = body,
    { tools = [], tool_choice: choice = 'auto', response_format: format, reasoning_effort: effort } = body;
  if (top && !logprobs)
    throw new Refusal("'top_logprobs' is expected with 'logprobs': true", { param: 'top_logprobs' });
  if (most !== undefined && newer !== undefined && most !== newer)
    throw new Refusal("'max_tokens' is expected without 'max_completion_tokens', which says something else", {
      param: 'max_tokens',
    });
  return {
    ...commonAsk(body),
    prompt: {
      messages: messagesOf(body.messages),
      variables: body.chat_template_kwargs,
      effort: effort === undefined ? undefined : { level: effort, usual: 'medium', param: 'reasoning_effort' },
    },
    tools: tools.map((tool) => tool.function),
    toolChoice: typeof choice === 'string' ? choice : { name: choice.function.name },
    parallel: body.parallel_tool_calls ?? true,
    form: formOf(format?.type, format?.type === 'json_schema' ? format.json_schema.schema : undefined),
    maxNewTokens: newer ?? most,
    usualNewTokens: 256,
    logprobs: logprobs ? (top ?? 0) : undefined,
    names: {
      ...NAMES,
      maxNewTokens: newer === undefined ? 'max_tokens' : 'max_completion_tokens',
      prompt: 'messages',
      one: (i) => `messages[${i}]`,
    },
  };
}

const logprobsOf = ({ asked, tokenizer }: Answer, scored: readonly ScoredToken[] = []): object | null =>
  asked.logprobs === undefined ? null : chatLogprobs(tokenizer, scored);

/** The message of a whole choice. */
const messageOf = ({ text, reasoning, calls }: GatheredChoice): object => ({
  role: 'assistant',
  content: text === '' && calls.length > 0 ? null : text,
  refusal: null,
  ...(reasoning !== '' && { reasoning_content: reasoning }),
  ...(calls.length > 0 && {
    tool_calls: calls.map(({ id, ...called }) => ({ id, type: 'function', function: called })),
  }),
});

/** What an event adds to the message of its choice. */
function deltaOf(event: ChoiceEvent): object {
  switch (event.what) {
    case 'text':
      return event.text === '' ? {} : { content: event.text };
    case 'reasoning':
      return { reasoning_content: event.text };
    case 'call': {
      const { call: index, id, name } = event;
      return { tool_calls: [{ index, id, type: 'function', function: { name, arguments: '' } }] };
    }
    case 'arguments':
      return { tool_calls: [{ index: event.call, function: { arguments: event.text } }] };
    case 'end':
      return {};
  }
}

/** `POST /v1/chat/completions` of OpenAI. */
export const chat: Protocol = {
  path: '/v1/chat/completions',
  body: chatRequest,
  ask: (body) => ask(body as Static<typeof chatRequest>),
  async whole(answer) {
    const { choices, usage } = await gather({ ...answer, events: joinedEvents(answer.events) });
    return {
      ...head('chatcmpl', 'chat.completion', answer),
      choices: choices.map((choice, index) => ({
        index,
        message: messageOf(choice),
        logprobs: logprobsOf(answer, choice.scored),
        finish_reason: choice.finish,
      })),
      ...accounts(answer, usage),
    };
  },
  frames(answer) {
    const spoken = new Set<number>(),
      events = joinedEvents(answer.events);
    return chunks({ ...answer, events }, head('chatcmpl', 'chat.completion.chunk', answer), (event) => {
      const { choice: index, what } = event,
        said = {
          index,
          delta: deltaOf(event),
          logprobs: logprobsOf(answer, event.scored),
          finish_reason: what === 'end' ? event.finish : null,
        };
      if (spoken.has(index)) return [said];
      spoken.add(index);
      // a frame of its own, and no log-probabilities in it: OpenAI's client counts those of a choice's first frame twice
      const delta = { role: 'assistant', content: what === 'text' || what === 'end' ? '' : null };
      return [{ index, delta, logprobs: null, finish_reason: null }, said];
    });
  },
  error: errorOf,
};
