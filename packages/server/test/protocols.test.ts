import { readFileSync } from 'node:fs';
import { loadModel } from '@kv/models';
import fc from 'fast-check';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { messagesOf } from '../src/protocols/responses/items.ts';
import type { Item } from '../src/protocols/responses/fields.ts';
import { conversationOf } from '../src/protocols/messages/conversation.ts';
import { segmentsOf } from '../src/protocol/segments.ts';
import type { AnswerEvent } from '../src/run/answer-event.ts';
import { serve } from './serve.ts';
import type { Serving } from './serve.ts';

const chatTemplate = readFileSync(new URL('../../model-testing/fixtures/hermes.jinja', import.meta.url), 'utf8');
let on: Serving;
beforeAll(async () => {
  on = await serve({ model: await loadModel('embedded', { chatTemplate }) });
});
afterAll(() => on.server.close());

const parameters = {
  type: 'object',
  properties: { city: { enum: ['Paris', 'Rome'] } },
  required: ['city'],
  additionalProperties: false,
};
const said = 'The river was wide.';

interface Frame {
  readonly event: string;
  readonly data: any;
}
/** The events of a stream, whose names must be those in their data. */
async function streamed(path: string, body: object): Promise<readonly Frame[]> {
  const answer = await fetch(`${on.url}${path}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ ...body, stream: true }),
  });
  expect(answer.status).toBe(200);
  return (await answer.text())
    .split('\n\n')
    .filter((frame) => frame !== '')
    .map((frame) => {
      const [, event = '', data = ''] = /^event: (.*)\ndata: (.*)$/.exec(frame) ?? [];
      expect(JSON.parse(data).type).toBe(event);
      return { event, data: JSON.parse(data) };
    });
}

test('/v1/responses: whole and streamed answers agree, and every event is where the protocol has it', async () => {
  for (const more of [
    {},
    { top_logprobs: 2 },
    { tools: [{ type: 'function', name: 'weather', parameters }], tool_choice: 'required' },
    { text: { format: { type: 'json_schema', name: 'place', schema: parameters } } },
    { tools: [{ type: 'function', name: 'weather', parameters }], tool_choice: 'required', max_output_tokens: 8 },
  ]) {
    const body = { input: said, max_output_tokens: 90, seed: 3, ...more },
      whole = await on.post('/v1/responses', body),
      frames = await streamed('/v1/responses', body),
      last = frames.at(-1)!;
    expect(whole.status).toBe(200);
    expect(frames.map(({ data }) => data.sequence_number)).toEqual(frames.map((_, i) => i));
    expect(frames.slice(0, 2).map(({ event }) => event)).toEqual(['response.created', 'response.in_progress']);
    expect(last.event).toBe(`response.${whole.json.status}`);
    // calls come whole; of a message the length may have cut the end
    const { type, status } = whole.json.output.at(-1);
    expect(status).toBe(type === 'function_call' ? 'completed' : whole.json.status);
    // ids and times are new
    const plain = ({ output, status, incomplete_details: cut }: any): unknown => [
      output.map(({ id: _, call_id: __, ...item }: any) => item),
      status,
      cut,
    ];
    expect(plain(last.data.response)).toEqual(plain(whole.json));
    // the output put together from its events
    const items: any[] = [];
    for (const { event, data } of frames)
      if (event === 'response.output_item.added') {
        expect(data.output_index).toBe(items.length);
        items.push({ text: '', ...data.item });
      } else if (event.endsWith('.delta')) {
        const item = items[data.output_index];
        expect(item.id).toBe(data.item_id);
        item.text += data.delta;
      } else if (event === 'response.output_item.done') {
        const { item } = data;
        expect(items[data.output_index].text).toBe(item.arguments ?? item.content[0].text);
        expect(last.data.response.output[data.output_index]).toEqual(item);
      }
    expect(items).toHaveLength(last.data.response.output.length);
    if ('tool_choice' in more && !('max_output_tokens' in more)) {
      expect(whole.json.output.map(({ type }: any) => type)).toContain('function_call');
      for (const { arguments: given } of whole.json.output) expect(['Paris', 'Rome']).toContain(JSON.parse(given).city);
    }
    if ('text' in more) expect(['Paris', 'Rome']).toContain(JSON.parse(whole.json.output.at(-1).content[0].text).city);
  }
});

test('/v1/responses: a conversation goes on by the id of its last answer, or by references to items', async () => {
  const first = (await on.post('/v1/responses', { input: said, max_output_tokens: 8, temperature: 0 })).json,
    [item] = first.output,
    ask = { max_output_tokens: 8, temperature: 0 },
    question = { role: 'user', content: 'And then?' },
    by = async (body: object) => (await on.post('/v1/responses', { ...ask, ...body })).json;
  const [whole, named, referred] = [
    await by({ input: [{ role: 'user', content: said }, item, question] }),
    await by({ previous_response_id: first.id, input: [question] }),
    await by({ input: [{ role: 'user', content: said }, { type: 'item_reference', id: item.id }, question] }),
  ];
  const text = ({ output }: any): string => output[0].content[0].text;
  expect([text(named), text(referred)]).toEqual([text(whole), text(whole)]);
  expect(named.previous_response_id).toBe(first.id);
  expect(named.usage.input_tokens).toBe(whole.usage.input_tokens);
  const kept = await by({ input: said, instructions: 'Be brief.', policy: 'streaming(sinks=2)', budget: 12 }),
    why = await on.post('/v1/kv/why', { response: kept.id, text: 'wide' });
  expect(why.json).toMatchObject({ object: 'kv.why', found: 1, policy: 'streaming(sinks=2) ∘ topK' });
  expect(why.json.places[0].kept).toBeLessThan(1);
  expect((await on.post('/v1/kv/why', { response: 'resp_gone', text: 'wide' })).status).toBe(404);
  expect((await on.post('/v1/kv/why', { response: kept.id, budget: 8, text: 'wide' })).json.error.param).toBe('budget');
  const got = await fetch(`${on.url}/v1/responses/${first.id}`);
  expect(await got.json()).toEqual(first);
  const listed: any = await (await fetch(`${on.url}/v1/responses/${named.id}/input_items`)).json();
  expect(listed.data).toMatchObject([
    { type: 'message', role: 'user', content: [{ type: 'input_text', text: question.content }] },
  ]);
  expect([listed.first_id, listed.last_id]).toEqual([listed.data[0].id, listed.data[0].id]);
  expect((await fetch(`${on.url}/v1/responses/${first.id}?stream=true`)).status).toBe(400);
  // a client may say what a body would be
  const headers = { 'content-type': 'application/json' };
  expect((await fetch(`${on.url}/v1/responses/${first.id}`, { method: 'DELETE', headers })).status).toBe(200);
  for (const [status, param, body] of [
    [404, 'previous_response_id', { previous_response_id: first.id, input: 'a' }],
    [404, 'input[0].id', { input: [{ type: 'item_reference', id: 'msg_nobody' }] }],
    [400, 'input', {}],
    [400, 'input', { input: [] }],
    [400, 'input[0].call_id', { input: [{ type: 'function_call_output', call_id: 'none', output: 'a' }] }],
    [
      400,
      'input[0].content[0].type',
      { input: [{ role: 'user', content: [{ type: 'input_image', image_url: 'x' }] }] },
    ],
    [400, 'tools[0].type', { input: 'a', tools: [{ type: 'web_search' }] }],
    [400, 'background', { input: 'a', background: true }],
  ] as const) {
    const refused = await on.post('/v1/responses', body);
    expect([refused.status, refused.json.error.param]).toEqual([status, param]);
  }
  // what is not stored cannot be gone on from
  const { id } = (await on.post('/v1/responses', { ...ask, input: said, store: false })).json;
  expect((await on.post('/v1/responses', { previous_response_id: id, input: 'a' })).status).toBe(404);
});

test('/v1/messages: whole and streamed answers agree; tokens are counted; errors have the form of the protocol', async () => {
  const tools = [{ name: 'weather', input_schema: parameters }];
  for (const more of [
    {},
    { tools, tool_choice: { type: 'any', disable_parallel_tool_use: true } },
    { stop_sequences: ['e'] },
  ]) {
    const body = {
        ...{ model: 'embedded', max_tokens: 90, temperature: 0, system: 'Be brief.' },
        messages: [{ role: 'user', content: [{ type: 'text', text: said, cache_control: { type: 'ephemeral' } }] }],
        ...more,
      },
      { status, json } = await on.post('/v1/messages', body),
      frames = await streamed('/v1/messages', body);
    expect([status, json.type, json.role]).toEqual([200, 'message', 'assistant']);
    expect(frames.map(({ event }) => event).filter((event) => !event.startsWith('content_block'))).toEqual([
      ...['message_start', 'ping', 'message_delta', 'message_stop'],
    ]);
    const blocks: any[] = [];
    for (const { event, data } of frames)
      if (event === 'content_block_start') blocks.push({ ...data.content_block, json: '' });
      else if (data.delta?.type === 'text_delta') blocks[data.index].text += data.delta.text;
      else if (data.delta?.type === 'input_json_delta') blocks[data.index].json += data.delta.partial_json;
    const plain = (all: any[]): unknown => all.map(({ type, text, name, input }) => ({ type, text, name, input }));
    expect(
      plain(blocks.map((block) => (block.json === '' ? block : { ...block, input: JSON.parse(block.json) }))),
    ).toEqual(plain(json.content));
    const { delta, usage } = frames.at(-2)!.data,
      { input_tokens: fresh, cache_read_input_tokens: reused } = usage;
    expect(delta).toEqual({ stop_reason: json.stop_reason, stop_sequence: json.stop_sequence });
    const {
      max_tokens: _,
      temperature: __,
      stop_sequences: ___,
      ...asked
    } = body as typeof body & { stop_sequences?: unknown };
    expect((await on.post('/v1/messages/count_tokens', asked)).json.input_tokens).toBe(fresh + reused);
    const { input_tokens: first, cache_read_input_tokens: had } = frames[0].data.message.usage;
    expect([first, had]).toEqual([fresh, reused]);
    if ('tools' in more) {
      expect(json.stop_reason).toBe('tool_use');
      const [{ id, input }] = json.content;
      expect(['Paris', 'Rome']).toContain(input.city);
      const again = await on.post('/v1/messages', {
        ...body,
        tool_choice: { type: 'auto' },
        messages: [
          ...body.messages,
          { role: 'assistant', content: json.content },
          { role: 'user', content: [{ type: 'tool_result', tool_use_id: id, content: 'Sunny.' }] },
        ],
      });
      expect(again.status).toBe(200);
    }
    if ('stop_sequences' in more) expect([json.stop_reason, json.stop_sequence]).toEqual(['stop_sequence', 'e']);
  }
  const user = { role: 'user', content: said };
  for (const [status, kind, body] of [
    [400, 'invalid_request_error', { model: 'embedded', messages: [user] }],
    [404, 'not_found_error', { model: 'other', max_tokens: 1, messages: [user] }],
    [
      400,
      'invalid_request_error',
      { model: 'embedded', max_tokens: 1, messages: [user, { role: 'assistant', content: 'a' }] },
    ],
    [
      400,
      'invalid_request_error',
      { model: 'embedded', max_tokens: 1, messages: [{ role: 'user', content: [{ type: 'image', source: {} }] }] },
    ],
  ] as const) {
    const refused = await on.post('/v1/messages', body);
    expect([refused.status, refused.json.type, refused.json.error.type]).toEqual([status, 'error', kind]);
  }
});

test('a model without a chat template answers in both protocols', async () => {
  const plain = await serve(),
    user = { role: 'user', content: said };
  const answered = await plain.post('/v1/messages', { model: 'embedded', max_tokens: 4, messages: [user] });
  expect([answered.status, answered.json.type]).toEqual([200, 'message']);
  expect((await plain.post('/v1/responses', { input: said, max_output_tokens: 4 })).status).toBe(200);
  // it does not think
  const ask = { model: 'embedded', max_tokens: 4, messages: [user] };
  expect((await plain.post('/v1/messages', { ...ask, thinking: { type: 'disabled' } })).status).toBe(200);
  const { json } = await plain.post('/v1/messages', { ...ask, thinking: { type: 'enabled' } });
  expect(json.error.message).toBe("'thinking' is not supported, since this model has no chat template");
  await plain.server.close();
});

test('a refusal names what the client sent', async () => {
  const plain = await serve(),
    user = { role: 'user', content: said },
    use = { role: 'assistant', content: [{ type: 'tool_use', id: 'a', name: 'f', input: {} }] },
    used = { role: 'user', content: [{ type: 'tool_result', tool_use_id: 'b', content: 'x' }] },
    call = (id: string, given = '{}') => ({ type: 'function_call', call_id: id, name: 'f', arguments: given }),
    result = (id: string) => ({ type: 'function_call_output', call_id: id, output: 'x' }),
    answer = { role: 'assistant', content: 'Well.' };
  const message = (body: object) => ['/v1/messages', { model: 'embedded', max_tokens: 4, messages: [user], ...body }],
    response = (body: object) => ['/v1/responses', { max_output_tokens: 4, input: said, ...body }];
  for (const [[path, body], bare, templated] of [
    [message({ thinking: { type: 'enabled' } }), 'thinking', undefined],
    [message({ chat_template_kwargs: { a: 1 } }), 'chat_template_kwargs', undefined],
    [message({ messages: [user, use, used] }), 'messages[1].content', 'messages[2].content.tool_use_id'],
    [message({ messages: [used] }), 'messages[0].content', 'messages[0].content.tool_use_id'],
    [response({ input: [user, call('a'), result('b')] }), 'input[1].type', 'input[2].call_id'],
    [response({ input: [result('a')], instructions: 'Be brief.' }), 'input[0].type', 'input[0].call_id'],
    [
      response({ input: [user, answer, call('a'), call('b', '[]'), result('a'), result('b')] }),
      'input[2].type',
      'input[3].arguments',
    ],
  ] as const)
    for (const [served, name] of [
      [plain, bare],
      [on, templated],
    ] as const) {
      const { status, json } = await served.post(path as string, body);
      if (name === undefined) expect(status).toBe(200);
      else expect([status, /'([^']*)'/.exec(json.error.message)?.[1]]).toEqual([400, name]);
    }
  await plain.server.close();
});

test('a whole call stays a call where the length ends the answer right after it', async () => {
  const events = async function* (): AsyncGenerator<AnswerEvent> {
    yield { what: 'call', choice: 0, call: 0, id: 'a', name: 'f' };
    yield { what: 'arguments', choice: 0, call: 0, text: '{}' };
    yield { what: 'end', choice: 0, finish: 'length' };
  };
  const closed: unknown[] = [];
  for await (const event of segmentsOf(events()))
    if (event.what === 'close') closed.push([event.segment.text, event.segment.complete]);
  expect(closed).toEqual([['{}', true]]);
});

test('items of /v1/responses and blocks of /v1/messages are the messages that the same conversation has elsewhere', () => {
  const text = fc.string({ minLength: 1, maxLength: 8 }),
    call = fc.record({
      id: fc.stringMatching(/^[a-z]{4}$/),
      name: fc.constantFrom('f', 'g'),
      input: fc.dictionary(text, text, { maxKeys: 2 }),
    }),
    turn = fc.record({
      user: text,
      thought: fc.option(text, { nil: undefined }),
      answer: text,
      calls: fc.array(call, { maxLength: 2 }),
      result: text,
    });
  fc.assert(
    fc.property(fc.array(turn, { maxLength: 4 }), text, (turns, last) => {
      const calls = (of: (typeof turns)[number]['calls']) =>
        of.map(({ id, name, input }) => ({
          id,
          type: 'function',
          function: { name, arguments: JSON.stringify(input) },
        }));
      const chat = [
        ...turns.flatMap(({ user, thought, answer, calls: made, result }) => [
          { role: 'user', content: user },
          {
            role: 'assistant',
            content: answer,
            ...(thought !== undefined && { reasoning_content: thought }),
            ...(made.length > 0 && { tool_calls: calls(made) }),
          },
          ...made.map(({ id }) => ({ role: 'tool', content: result, tool_call_id: id })),
        ]),
        { role: 'user', content: last },
      ];
      const items: Item[] = [
        ...turns.flatMap(({ user, thought, answer, calls: made, result }): Item[] => [
          { role: 'user', content: [{ text: user }] },
          ...(thought === undefined
            ? []
            : [{ type: 'reasoning' as const, content: [{ type: 'reasoning_text', text: thought }] }]),
          { type: 'message', role: 'assistant', content: [{ text: answer }] },
          ...made.map(
            ({ id, name, input }) =>
              ({ type: 'function_call', call_id: id, name, arguments: JSON.stringify(input) }) as const,
          ),
          ...made.map(({ id }) => ({ type: 'function_call_output', call_id: id, output: result }) as const),
        ]),
        { role: 'user', content: last },
      ];
      expect(messagesOf(items)).toEqual(chat);
      const blocks = [
        ...turns.flatMap(({ user, thought, answer, calls: made, result }, i) => [
          ...(i > 0 && turns[i - 1].calls.length > 0 ? [] : [{ role: 'user' as const, content: user }]),
          {
            role: 'assistant' as const,
            content: [
              ...(thought === undefined ? [] : [{ type: 'thinking' as const, thinking: thought }]),
              { type: 'text' as const, text: answer },
              ...made.map(({ id, name, input }) => ({ type: 'tool_use' as const, id, name, input })),
            ],
          },
          ...(made.length === 0
            ? []
            : [
                {
                  role: 'user' as const,
                  content: [
                    ...made.map(({ id }) => ({ type: 'tool_result' as const, tool_use_id: id, content: result })),
                    { type: 'text' as const, text: turns[i + 1]?.user ?? last },
                  ],
                },
              ]),
        ]),
        ...(turns.length > 0 && turns.at(-1)!.calls.length > 0 ? [] : [{ role: 'user' as const, content: last }]),
      ];
      expect(conversationOf(blocks)).toEqual(chat);
    }),
    { numRuns: 60 },
  );
});
