import { randomBytes } from 'node:crypto';
import type { Tokenizer } from '@kv/models';
import type { FastifyInstance } from 'fastify';
import type { Ask, AskNames } from '../../protocol/ask.ts';
import { chatLogprobs } from '../../protocol/logprobs.ts';
import type { ScoredToken } from '../../protocol/logprobs.ts';
import { partOf } from '../../protocol/conversation.ts';
import { formOf, NAMES } from '../../protocol/openai.ts';
import { eventFrame } from '../../protocol/protocol.ts';
import type { Answer, Protocol } from '../../protocol/protocol.ts';
import { Refusal, refusalOf } from '../../protocol/refusal.ts';
import { readSampling } from '../../protocol/sampling.ts';
import { gatherSegments, segmentsOf } from '../../protocol/segments.ts';
import type { Segment } from '../../protocol/segments.ts';
import { toldOf } from '../../protocol/told.ts';
import type { FinishReason } from '../../run/answer-event.ts';
import type { Usage } from '../../run/job.ts';
import type { NamedConversations } from '../../run/named-conversations.ts';
import { responsesRequest } from './fields.ts';
import type { InputItem, Item, ResponsesRequest } from './fields.ts';
import { messagesOf } from './items.ts';

/** What of a request the cache of its conversation depends on, in addition to its items. */
type Conversation = {
  readonly [K in
    | 'model'
    | 'instructions'
    | 'tools'
    | 'chat_template_kwargs'
    | 'reasoning'
    | 'policy'
    | 'budget'
    | 'block'
    | 'every']?: ResponsesRequest[K] | undefined;
};

/** What is remembered by the id of a response, and each item of its output by its own. */
export interface ResponseRecord {
  readonly response?: object;
  /** Items that were sent with the request, without those of earlier responses. */
  readonly input?: readonly Item[];
  /** All items of the conversation. */
  readonly items: readonly Item[];
  /** Of a response. */
  readonly conversation?: Conversation;
}

/** What a response needs of its request. */
interface Own {
  readonly id: string;
  readonly items: readonly Item[];
  readonly input: readonly Item[];
  readonly store: boolean;
  readonly conversation: Conversation;
  /** Fields of the request that the response repeats. */
  readonly echo: object;
}

const newId = (prefix: string): string => `${prefix}_${randomBytes(24).toString('hex')}`;

/** Returns the items of an input, references replaced by what they name. @throws Refusal with 404 for one that is gone */
async function itemsOf(
  input: string | readonly InputItem[] = [],
  remembered: NamedConversations<ResponseRecord>,
): Promise<readonly Item[]> {
  if (typeof input === 'string') return [{ role: 'user', content: input }];
  return Promise.all(
    input.map(async (item, i): Promise<Item> => {
      if (item.type !== 'item_reference') return item;
      try {
        const { items, conversation } = await remembered.named(item.id);
        if (!conversation) return items[0];
      } catch (cause) {
        if (!(cause instanceof Refusal)) throw cause;
        throw new Refusal(
          `'input[${i}].id' is not known (any more), got ${JSON.stringify(item.id.slice(0, 80))}: send the item itself`,
          { status: 404, param: `input[${i}].id`, code: 'item_not_found' },
        );
      }
      throw new Refusal(
        `'input[${i}].id' is that of a response, got ${JSON.stringify(item.id.slice(0, 80))}: send it as 'previous_response_id'`,
        { status: 404, param: `input[${i}].id`, code: 'item_not_found' },
      );
    }),
  );
}

/** Returns all items of an earlier response. @throws Refusal with 404 for one that is gone, and for the id of an item */
async function earlierItems(id: string, remembered: NamedConversations<ResponseRecord>): Promise<readonly Item[]> {
  const { items, conversation } = await remembered.named(id);
  if (conversation) return items;
  throw new Refusal(`'previous_response_id' is not that of a response, got ${JSON.stringify(id.slice(0, 80))}`, {
    status: 404,
    param: 'previous_response_id',
    code: 'previous_response_not_found',
  });
}

/**
 * What is asked of a conversation.
 * @param earlier how many of its items are of earlier responses
 */
export const conversationAsk = (
  { model, instructions, tools = [], chat_template_kwargs: variables, reasoning, ...policy }: Conversation,
  items: readonly Item[],
  earlier = 0,
): Pick<Ask, 'model' | 'prompt' | 'tools' | 'policy' | 'budget' | 'block' | 'every'> & Pick<Ask, 'names'> => ({
  model,
  prompt: {
    messages: [
      ...(instructions === undefined ? [] : [{ role: 'system', content: instructions }]),
      ...messagesOf(items),
    ],
    variables,
    effort: reasoning?.effort && { level: reasoning.effort, usual: 'medium', param: 'reasoning.effort' },
  },
  tools,
  ...policy,
  names: {
    ...NAMES,
    parameters: (i) => `tools[${i}].parameters`,
    form: 'text.format.schema',
    maxNewTokens: 'max_output_tokens',
    prompt: 'input',
    ...itemNames(items, instructions === undefined ? 0 : 1, earlier),
  },
});

/**
 * What the client calls messages that are made of items, and their fields.
 * @param before messages in front of them
 * @param earlier how many items are of earlier responses
 */
function itemNames(items: readonly Item[], before: number, earlier: number): Pick<AskNames, 'one' | 'field'> {
  const itemOf = (i: number): number =>
      partOf(i - before, items.length, (first) => messagesOf(items.slice(0, first)).length),
    nameOf = (item: number, field = ''): string =>
      item < earlier ? 'previous_response_id' : `input[${item - earlier}]${field}`;
  return {
    one: (i) => (i < before ? 'instructions' : nameOf(itemOf(i))),
    field(i, name) {
      const first = itemOf(i);
      if (name === 'tool_call_id') return nameOf(first, '.call_id');
      if (!name.startsWith('tool_calls'))
        return nameOf(first, items[first]?.type === 'function_call_output' ? '.type' : `.${name}`);
      // each call is an item, among those that are one message
      let left = Number(/\d+/.exec(name) ?? 0);
      const call = items.findIndex(({ type }, at) => at >= first && type === 'function_call' && left-- === 0);
      return nameOf(call, name.endsWith('.arguments') ? '.arguments' : '.type');
    },
  };
}

async function ask(body: ResponsesRequest, remembered: NamedConversations<ResponseRecord>): Promise<Ask> {
  const { model, instructions, previous_response_id: previous, stream = false, store = true, kv } = body,
    { tools = [], tool_choice: choice = 'auto', parallel_tool_calls: parallel = true, text, include = [] } = body,
    { policy, budget, block, every, max_output_tokens: maxNewTokens, top_logprobs: top } = body,
    { chat_template_kwargs, reasoning } = body,
    format = text?.format;
  if (previous === undefined && (body.input ?? []).length === 0)
    throw new Refusal("'input' is expected, got none", { param: 'input' });
  const input = await itemsOf(body.input, remembered),
    before = previous === undefined ? [] : await earlierItems(previous, remembered),
    items = [...before, ...input];
  const sampling = readSampling(body),
    own: Own = {
      id: newId('resp'),
      items,
      input,
      store,
      conversation: { model, instructions, tools, chat_template_kwargs, reasoning, policy, budget, block, every },
      echo: {
        instructions: instructions ?? null,
        max_output_tokens: maxNewTokens ?? null,
        metadata: body.metadata ?? {},
        parallel_tool_calls: parallel,
        previous_response_id: previous ?? null,
        reasoning: { effort: reasoning?.effort ?? null, summary: null },
        store,
        temperature: body.temperature ?? null,
        text: { format: format ?? { type: 'text' } },
        tool_choice: choice,
        tools,
        top_logprobs: top ?? 0,
        top_p: body.top_p ?? null,
        truncation: 'disabled',
        ...(body.user !== undefined && { user: body.user }),
      },
    };
  return {
    ...conversationAsk(own.conversation, items, before.length),
    stream,
    n: 1,
    toolChoice: choice,
    parallel,
    form: formOf(format?.type, format?.type === 'json_schema' ? format.schema : undefined),
    sampling,
    stop: [],
    maxNewTokens,
    usualNewTokens: 1024,
    logprobs: top ?? (include.includes('message.output_text.logprobs') ? 0 : undefined),
    protect: kv?.protect,
    includeUsage: true,
    own,
  };
}

const ownOf = ({ asked }: Answer): Own => asked.own as Own; // `ask` gave it

/** Output items with their ids, which all frames of a stream name. */
class Output {
  readonly #ids = new Map<Segment, string>();
  readonly #answer: Answer;

  constructor(answer: Answer) {
    this.#answer = answer;
  }

  idOf(segment: Segment): string {
    const id = this.#ids.get(segment) ?? newId({ text: 'msg', reasoning: 'rs', call: 'fc' }[segment.kind]);
    this.#ids.set(segment, id);
    return id;
  }

  /** @param going whether more of it will come */
  item(segment: Segment, going = false): object {
    const { kind, call, complete } = segment,
      base = { id: this.idOf(segment), status: going ? 'in_progress' : complete ? 'completed' : 'incomplete' };
    if (kind === 'call')
      return { type: 'function_call', ...base, call_id: call?.id, name: call?.name, arguments: segment.text };
    const content = going ? [] : [this.part(segment)];
    return kind === 'text'
      ? { type: 'message', role: 'assistant', ...base, content }
      : { type: 'reasoning', ...base, summary: [], content };
  }

  part({ kind, text, scored }: Segment): object {
    if (kind === 'reasoning') return { type: 'reasoning_text', text };
    return { type: 'output_text', text, annotations: [], logprobs: this.logprobs(scored) };
  }

  logprobs(scored: readonly ScoredToken[]): readonly object[] {
    const { asked, tokenizer } = this.#answer;
    return asked.logprobs === undefined ? [] : chatLogprobs(tokenizer, scored).content;
  }
}

const tokensOf = (tokenizer: Tokenizer, segments: readonly Segment[]): number =>
  segments.reduce((sum, { kind, text }) => sum + (kind === 'reasoning' ? tokenizer.encode(text).ids.length : 0), 0);

/** The protocol's response object. */
function response(answer: Answer, at: number, status: string, more: object = {}): object {
  const { id, echo } = ownOf(answer);
  return {
    ...{ id, object: 'response', created_at: at, status, background: false, error: null, incomplete_details: null },
    ...{ model: answer.model, output: [], usage: null, service_tier: 'default', ...echo, ...more },
  };
}

/** A response that has ended. */
function finished(
  answer: Answer,
  at: number,
  {
    segments,
    finish,
    usage,
    output,
  }: {
    readonly segments: readonly Segment[];
    readonly finish: FinishReason;
    readonly usage: Usage;
    readonly output: Output;
  },
): object {
  const { promptTokens, tokensReused, completionTokens } = usage,
    cut = finish === 'length';
  return response(answer, at, cut ? 'incomplete' : 'completed', {
    ...(cut && { incomplete_details: { reason: 'max_output_tokens' } }),
    output: segments.map((segment) => output.item(segment)),
    usage: {
      input_tokens: promptTokens,
      input_tokens_details: { cached_tokens: tokensReused },
      output_tokens: completionTokens,
      output_tokens_details: { reasoning_tokens: Math.min(completionTokens, tokensOf(answer.tokenizer, segments)) },
      total_tokens: promptTokens + completionTokens,
      kv: toldOf(answer, usage),
    },
  });
}

/** Events of the protocol, numbered. */
class Frames {
  #number = 0;
  write(type: string, data: object): string {
    return eventFrame(type, { sequence_number: this.#number++, ...data });
  }
}

/** What happens to the parts of a segment, by its kind: the names of events, and where the text is. */
const GROWTH = { text: 'output_text', reasoning: 'reasoning_text', call: 'function_call_arguments' } as const;

/**
 * `POST /v1/responses` of OpenAI.
 * @param remembered conversations by the ids of their responses
 */
export function responses(remembered: NamedConversations<ResponseRecord>): Protocol {
  /** Remembers a response that was asked to be stored; by then a shared store has it. */
  const remember = async (answer: Answer, said: object): Promise<void> => {
    const { id, items, input, store, conversation } = ownOf(answer),
      { output } = said as { readonly output: readonly (Item & { readonly id: string })[] };
    if (!store) return;
    await Promise.all([
      ...output.map((item) => remembered.name(item.id, { items: [item] })),
      remembered.name(id, { response: said, input, items: [...items, ...output], conversation }),
    ]);
  };
  return {
    path: '/v1/responses',
    body: responsesRequest,
    ask: (body) => ask(body as ResponsesRequest, remembered),
    async whole(answer) {
      const at = Math.floor(Date.now() / 1000),
        said = finished(answer, at, { ...(await gatherSegments(answer.events)), output: new Output(answer) });
      await remember(answer, said);
      return said;
    },
    async *frames(answer) {
      const at = Math.floor(Date.now() / 1000),
        frames = new Frames(),
        output = new Output(answer),
        segments: Segment[] = [];
      let finish: FinishReason = 'stop';
      for (const type of ['response.created', 'response.in_progress'])
        yield frames.write(type, { response: response(answer, at, 'in_progress') });
      try {
        for await (const event of segmentsOf(answer.events)) {
          if (event.what === 'end') {
            finish = event.finish;
            continue;
          }
          if (event.what === 'usage') {
            const said = finished(answer, at, { segments, finish, usage: event.usage, output }),
              { status } = said as { readonly status: string };
            await remember(answer, said);
            yield frames.write(`response.${status}`, { response: said });
            continue;
          }
          const { segment } = event,
            { index: output_index, kind, text } = segment,
            place = { item_id: output.idOf(segment), output_index, ...(kind !== 'call' && { content_index: 0 }) },
            type = `response.${GROWTH[kind]}`;
          if (event.what === 'begin') {
            segments.push(segment);
            yield frames.write('response.output_item.added', { output_index, item: output.item(segment, true) });
            if (kind !== 'call')
              yield frames.write('response.content_part.added', { ...place, part: output.part(segment) });
          } else if (event.what === 'grow')
            yield frames.write(`${type}.delta`, {
              ...place,
              delta: event.text,
              ...(kind === 'text' && { logprobs: output.logprobs(event.scored) }),
            });
          else {
            const { call, scored } = segment;
            yield frames.write(`${type}.done`, {
              ...place,
              ...(kind === 'call' ? { arguments: text, name: call?.name } : { text }),
              ...(kind === 'text' && { logprobs: output.logprobs(scored) }),
            });
            if (kind !== 'call')
              yield frames.write('response.content_part.done', { ...place, part: output.part(segment) });
            yield frames.write('response.output_item.done', { output_index, item: output.item(segment) });
          }
        }
      } catch (cause) {
        const { message, code } = refusalOf(cause),
          error = { code: code ?? 'server_error', message };
        yield frames.write('response.failed', {
          response: response(answer, at, 'failed', { error, output: segments.map((each) => output.item(each)) }),
        });
      }
    },
    error: ({ body }) => body,
  };
}

/** A route that names a response. */
interface OfResponse {
  readonly Params: { readonly id: string };
  readonly Querystring: Readonly<Record<string, unknown>>;
}

/**
 * @param known names that the route reads
 * @throws Refusal for anything else that a query asks, but for what is there anyway
 */
function expectQuery(query: OfResponse['Querystring'], known: readonly string[] = []): void {
  const [param] = Object.keys(query).filter((name) => !name.startsWith('include') && !known.includes(name));
  if (param !== undefined) throw new Refusal(`'${param}' is not supported in this query`, { param });
}

/** Returns a part of a list as the protocol does: 20 from the newest on, unless the query says otherwise. */
function pageOf<T extends { readonly id: string }>(
  all: readonly T[],
  { limit = '20', order = 'desc', after }: OfResponse['Querystring'],
): object {
  const refuse = (param: string, want: string, got: unknown): never => {
    throw new Refusal(`'${param}' must be ${want}, got ${JSON.stringify(got).slice(0, 80)}`, { param });
  };
  if (!/^(?:[1-9]\d?|100)$/.test(String(limit))) refuse('limit', 'a whole number from 1 to 100', limit);
  if (order !== 'asc' && order !== 'desc') refuse('order', "'asc' or 'desc'", order);
  const ordered = order === 'asc' ? all : all.toReversed(),
    last = ordered.findIndex(({ id }) => id === after);
  if (after !== undefined && last < 0) refuse('after', 'the id of an item of this list', after);
  const rest = ordered.slice(last + 1),
    data = rest.slice(0, Number(limit));
  return {
    object: 'list',
    data,
    first_id: data[0]?.id ?? null,
    last_id: data.at(-1)?.id ?? null,
    has_more: data.length < rest.length,
  };
}

/** An item that was sent, as it is listed: with its type and an id. */
function listed(item: Item, id: string): Item & { readonly id: string } {
  if (item.type !== undefined && item.type !== 'message') return { ...item, id: item.id ?? id };
  const { role, content } = item,
    type = role === 'assistant' ? 'output_text' : 'input_text';
  return {
    status: 'completed',
    ...item,
    type: 'message',
    id: item.id ?? id,
    content: typeof content === 'string' ? [{ type, text: content }] : content,
  };
}

/** Routes that tell, and forget, what is remembered. */
export function responseRoutes(app: FastifyInstance, remembered: NamedConversations<ResponseRecord>): void {
  const found = async (id: string): Promise<ResponseRecord & { readonly response: object }> => {
    const known = await remembered.named(id, 'id');
    if (known.response) return { ...known, response: known.response };
    throw new Refusal(`'id' is not that of a response, got ${JSON.stringify(id.slice(0, 80))}`, {
      status: 404,
      param: 'id',
    });
  };
  app.get<OfResponse>('/v1/responses/:id', async ({ params: { id }, query }) => {
    expectQuery(query);
    return (await found(id)).response;
  });
  app.get<OfResponse>('/v1/responses/:id/input_items', async ({ params: { id }, query }) => {
    expectQuery(query, ['limit', 'order', 'after']);
    const { input = [] } = await found(id);
    return pageOf(
      input.map((item, i) => listed(item, `${id}_${i}`)),
      query,
    );
  });
  app.delete<OfResponse>('/v1/responses/:id', async ({ params: { id } }) => {
    const { output = [] } = (await found(id)).response as { readonly output?: readonly { readonly id?: string }[] };
    // the items of its output have ids of their own
    await Promise.all([id, ...output.flatMap((item) => item.id ?? [])].map((one) => remembered.forget(one)));
    return { id, object: 'response', deleted: true };
  });
}
