import { randomUUID } from 'node:crypto';
import type { AnswerForm } from '@kv/grammars';
import type { ChoiceEvent } from '../run/answer-event.ts';
import type { Usage } from '../run/job.ts';
import type { Ask } from './ask.ts';
import type { Answer } from './protocol.ts';
import { toldOf } from './told.ts';
import { refusalOf, type Refusal } from './refusal.ts';
import { readSampling } from './sampling.ts';
import type { CommonRequest } from './schema.ts';

type AskOfOne = Pick<
  Ask,
  'prompt' | 'usualNewTokens' | 'names' | 'logprobs' | 'tools' | 'toolChoice' | 'parallel' | 'form'
>;

/** What the protocol calls fields of both kinds of request. */
export const NAMES = {
  tools: 'tools',
  parameters: (i: number) => `tools[${i}].function.parameters`,
  toolChoice: 'tool_choice',
  form: 'response_format',
};

/** Reads the fields that requests of both kinds have. @throws Refusal naming the invalid field */
export function commonAsk(request: CommonRequest): Omit<Ask, keyof AskOfOne> {
  const { model, stop = [], n = 1, stream = false, max_tokens: maxNewTokens } = request,
    { policy, budget, block, every, kv } = request;
  return {
    model,
    stream,
    n,
    sampling: readSampling(request),
    stop: typeof stop === 'string' ? [stop] : stop,
    maxNewTokens,
    ...{ policy, budget, block, every, protect: kv?.protect },
    includeUsage: request.stream_options?.include_usage === true,
  };
}

/** What every object of an answer begins with. */
export const head = (prefix: string, object: string, { model }: Answer): object => ({
  id: `${prefix}-${randomUUID()}`,
  object,
  created: Math.floor(Date.now() / 1000),
  model,
});

/** Returns what an answer must look like by a form's type, and its schema if it has one. */
export function formOf(type: string | undefined, schema?: object | boolean): AnswerForm | undefined {
  if (schema !== undefined) return { kind: 'schema', schema };
  return type === 'json_object' ? { kind: 'json' } : undefined;
}

export const frame = (data: unknown): string => `data: ${JSON.stringify(data)}\n\n`;

/** What an answer cost and under which cache it was given. */
export function accounts(answer: Answer, usage: Usage): { readonly usage: object; readonly kv: object } {
  const { asked, policy, budget } = answer;
  const { promptTokens, tokensReused, completionTokens, keptSlots, droppedSlots, cache, notes, scoredEvicted } = usage;
  return {
    usage: {
      prompt_tokens: promptTokens,
      completion_tokens: completionTokens,
      total_tokens: promptTokens + completionTokens,
      prompt_tokens_details: { cached_tokens: tokensReused },
      kept_slots: keptSlots,
      dropped_slots: droppedSlots,
      cache: {
        form: cache.form,
        bytes_per_token: cache.bytesPerToken,
        live_bytes: cache.liveBytes,
        peak_bytes: cache.peakBytes,
        ...(cache.stateBytes > 0 && { state_bytes: cache.stateBytes }),
      },
      kv: toldOf(answer, usage),
    },
    kv: {
      policy,
      ...(budget !== undefined && { budget }),
      ...(notes.size > 0 && { notes: [...notes] }),
      ...(asked.echo &&
        asked.logprobs !== undefined && { prompt_scored_under: scoredEvicted ? 'evicted cache' : 'full cache' }),
    },
  };
}

/**
 * Writes a stream: a frame of each choice that `choicesOf` makes of an event, then the usage if it was asked for; a
 * failure is one more frame.
 */
export async function* chunks(
  answer: Answer,
  same: object,
  choicesOf: (event: ChoiceEvent) => readonly object[],
): AsyncGenerator<string, void> {
  const { events, asked } = answer;
  try {
    for await (const event of events)
      if (event.what !== 'usage')
        for (const choice of choicesOf(event))
          yield frame({ ...same, choices: [choice], ...(asked.includeUsage && { usage: null }) });
      else if (asked.includeUsage) yield frame({ ...same, choices: [], ...accounts(answer, event.usage) });
    yield 'data: [DONE]\n\n';
  } catch (cause) {
    yield frame(errorOf(refusalOf(cause)));
  }
}

/** The protocol's error object. */
export const errorOf = ({ body }: Refusal): object => body;
