import { randomBytes } from 'node:crypto';
import { parseExactJson } from '@kv/models';
import type { Static } from 'typebox';
import type { Ask } from '../../protocol/ask.ts';
import { partOf } from '../../protocol/conversation.ts';
import { eventFrame } from '../../protocol/protocol.ts';
import type { Answer, Protocol } from '../../protocol/protocol.ts';
import { refusalOf } from '../../protocol/refusal.ts';
import type { Refusal } from '../../protocol/refusal.ts';
import { readSampling } from '../../protocol/sampling.ts';
import { gatherSegments, segmentsOf } from '../../protocol/segments.ts';
import type { Segment } from '../../protocol/segments.ts';
import { toldOf } from '../../protocol/told.ts';
import type { FinishReason } from '../../run/answer-event.ts';
import type { Usage } from '../../run/job.ts';
import { chatMessages, conversationOf } from './conversation.ts';
import { countRequest, messagesRequest } from './fields.ts';

type CountRequest = Static<typeof countRequest>;
type MessagesRequest = CountRequest & Omit<Static<typeof messagesRequest>, keyof CountRequest>;

/** Why an answer ended, as the protocol says it. */
const STOPS: Readonly<Record<FinishReason, string>> = {
  stop: 'end_turn',
  length: 'max_tokens',
  tool_calls: 'tool_use',
};

/** Reads what is asked, apart from how it is answered. */
function conversationAsk(
  body: CountRequest,
): Pick<Ask, 'model' | 'prompt' | 'tools' | 'toolChoice' | 'parallel' | 'form' | 'names'> {
  const { model, messages, system, tools = [], tool_choice: choice, thinking, output_config: output } = body,
    offset = system === undefined ? 0 : 1,
    format = output?.format,
    one = (i: number): string =>
      i < offset
        ? 'system'
        : `messages[${partOf(i - offset, messages.length, (first) => messages.slice(0, first).flatMap(chatMessages).length)}]`;
  return {
    model,
    prompt: {
      messages: conversationOf(messages, system),
      variables: body.chat_template_kwargs,
      thinking: thinking && thinking.type !== 'disabled',
      effort: output?.effort && { level: output.effort, usual: 'high', param: 'output_config.effort' },
    },
    tools: tools.map(({ name, description, input_schema: parameters }) => ({
      ...{ name, parameters },
      ...(description !== undefined && { description }),
    })),
    toolChoice:
      choice?.type === 'any'
        ? 'required'
        : choice?.type === 'tool'
          ? { name: choice.name ?? '' } // the schema demands it
          : (choice?.type ?? 'auto'),
    parallel: choice?.disable_parallel_tool_use !== true,
    form: format && { kind: 'schema', schema: format.schema },
    names: {
      maxNewTokens: 'max_tokens',
      prompt: 'messages',
      one,
      // calls and results are blocks
      field: (i, name) => `${one(i)}.content${name === 'tool_call_id' ? '.tool_use_id' : ''}`,
      tools: 'tools',
      parameters: (i) => `tools[${i}].input_schema`,
      toolChoice: 'tool_choice',
      form: 'output_config.format.schema',
    },
  };
}

function ask(body: MessagesRequest): Ask {
  const { max_tokens, stop_sequences: stop = [], stream = false, policy, budget, block, every, kv } = body;
  return {
    ...conversationAsk(body),
    stream,
    n: 1,
    sampling: readSampling(body),
    stop,
    maxNewTokens: max_tokens,
    usualNewTokens: max_tokens,
    ...{ policy, budget, block, every, protect: kv?.protect },
    includeUsage: true,
  };
}

/** Counts of tokens, by whether a cache held them, and what the caches hold: at the start, and once the answer has ended. */
const usageOf = (answer: Answer, usage?: Usage): object => ({
  input_tokens: answer.read.tokensRead,
  cache_creation_input_tokens: 0,
  cache_read_input_tokens: answer.read.tokensReused,
  output_tokens: usage?.completionTokens ?? 1,
  service_tier: 'standard',
  kv: toldOf(answer, usage),
});

/** A segment as a block; what is streamed of it begins empty. */
function blockOf({ kind, text, call }: Segment): object {
  if (kind === 'text') return { type: 'text', text };
  if (kind === 'reasoning') return { type: 'thinking', thinking: text, signature: '' };
  return { type: 'tool_use', ...call, input: text === '' ? {} : parseExactJson(text) };
}

const head = ({ model }: Answer): object => ({
  id: `msg_${randomBytes(12).toString('hex')}`,
  type: 'message',
  role: 'assistant',
  model,
});
/** How an answer ended. Of texts that end it, those of the server alone are no stop sequence: a line's end, say. */
function ending({ asked }: Answer, finish: FinishReason, stopText: string | undefined): object {
  const stopped = finish === 'stop' && stopText !== undefined && asked.stop.includes(stopText);
  return { stop_reason: stopped ? 'stop_sequence' : STOPS[finish], stop_sequence: stopped ? stopText : null };
}

const deltaOf = (kind: Segment['kind'], text: string): object =>
  kind === 'text'
    ? { type: 'text_delta', text }
    : kind === 'reasoning'
      ? { type: 'thinking_delta', thinking: text }
      : { type: 'input_json_delta', partial_json: text };

/** What kind of error each status is. */
const ERRORS: Readonly<Record<number, string>> = {
  401: 'authentication_error',
  403: 'permission_error',
  404: 'not_found_error',
  413: 'request_too_large',
  429: 'rate_limit_error',
  503: 'overloaded_error',
};
const errorOf = ({ status, message }: Refusal): object => ({
  type: 'error',
  error: { type: ERRORS[status] ?? (status >= 500 ? 'api_error' : 'invalid_request_error'), message },
});

/** `POST /v1/messages` of Anthropic. */
export const messages: Protocol = {
  path: '/v1/messages',
  body: messagesRequest,
  ask: (body) => ask(body as MessagesRequest),
  async whole(answer) {
    const { segments, finish, stopText, usage } = await gatherSegments(answer.events);
    return {
      ...head(answer),
      content: segments.map(blockOf),
      ...ending(answer, finish, stopText),
      usage: usageOf(answer, usage),
    };
  },
  async *frames(answer) {
    let ended: object = {};
    yield eventFrame('message_start', {
      message: { ...head(answer), content: [], stop_reason: null, stop_sequence: null, usage: usageOf(answer) },
    });
    yield eventFrame('ping');
    try {
      for await (const event of segmentsOf(answer.events))
        if (event.what === 'usage')
          yield eventFrame('message_delta', { delta: ended, usage: usageOf(answer, event.usage) });
        else if (event.what === 'end') ended = ending(answer, event.finish, event.stopText);
        else {
          const { index, kind } = event.segment;
          if (event.what === 'begin')
            yield eventFrame('content_block_start', { index, content_block: blockOf(event.segment) });
          else if (event.what === 'close') yield eventFrame('content_block_stop', { index });
          else if (event.text !== '')
            yield eventFrame('content_block_delta', { index, delta: deltaOf(kind, event.text) });
        }
      yield eventFrame('message_stop');
    } catch (cause) {
      const { type: _, ...error } = errorOf(refusalOf(cause)) as { readonly type: string };
      yield eventFrame('error', error);
    }
  },
  error: errorOf,
};

/** `POST /v1/messages/count_tokens`: the tokens of a prompt, which nothing answers. */
export const countTokens = {
  path: '/v1/messages/count_tokens',
  body: countRequest,
  ask: (body: unknown) => conversationAsk(body as CountRequest),
  error: errorOf,
};
