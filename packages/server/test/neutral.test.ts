import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { NEUTRAL } from '../src/protocol/schema.ts';
import type { ChatTemplate } from '@kv/models';
import { embedded, frames, serve } from './serve.ts';
import type { Serving } from './serve.ts';

let on: Serving;
beforeAll(async () => {
  on = await serve();
});
afterAll(() => on.server.close());

const user = { role: 'user', content: 'The river was' };
const chat = (body: object) => on.post('/v1/chat/completions', { max_tokens: 1, temperature: 0, ...body });

/** The message of an answer, as it came or as a client puts it together from a stream. */
async function answered(streamed: boolean): Promise<object> {
  const body = { messages: [user], max_tokens: 3, temperature: 0 };
  if (!streamed) return (await chat(body)).json.choices[0].message;
  const answer = await fetch(`${on.url}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ ...body, stream: true }),
  });
  const message: Record<string, string> = {};
  for (const frame of (await frames(answer)).slice(0, -1))
    for (const [field, value] of Object.entries(JSON.parse(frame).choices[0].delta))
      message[field] = field === 'content' ? (message.content ?? '') + String(value) : String(value);
  return message;
}

const citation = { type: 'url_citation', url_citation: { url: 'a', title: 'b', start_index: 0, end_index: 1 } };
/** Fields that messages of the protocol have in addition to role and content, if no tool was called. */
const beside = fc.record(
  {
    refusal: fc.constantFrom(null, ''),
    annotations: fc.constantFrom(null, [], [citation]),
    audio: fc.constant(null),
    function_call: fc.constant(null),
    tool_calls: fc.constantFrom(null, []),
    name: fc.constantFrom(null, 'Ann'),
    content: fc.constantFrom(null, '', [{ type: 'text', text: 'wide.' }], ' wide.'),
  },
  { requiredKeys: [] },
);
const label = fc.string({ maxLength: 20 });
/** Options that ask for nothing. */
const options = fc.record(
  {
    ...Object.fromEntries(
      Object.entries(NEUTRAL).map(([name, values]) => [name, fc.constantFrom(null, ...(values as null[]))]),
    ),
    ...{ user: label, safety_identifier: label, prompt_cache_key: label, metadata: fc.dictionary(label, label) },
    ...{ parallel_tool_calls: fc.boolean(), top_p: fc.constantFrom(0, 1, null), stop: fc.constantFrom(null, []) },
    stream_options: fc.constantFrom(null, { include_usage: null }, { include_obfuscation: false }),
    ...{ audio: fc.constant(null), prediction: fc.constant(null), web_search_options: fc.constant(null) },
  },
  { requiredKeys: [] },
);

describe('what a server wrote and what asks for nothing', () => {
  test('is taken back', async () => {
    const own = [await answered(false), await answered(true)];
    await fc.assert(
      fc.asyncProperty(fc.constantFrom(...own), beside, options, async (message, more, asked) => {
        const { status, json } = await chat({ messages: [user, { ...message, ...more }, user], ...asked });
        expect([status, json.error?.message]).toEqual([200, undefined]);
      }),
      { numRuns: 30 },
    );
  });
  test('changes no answer', async () => {
    const { json: plain } = await chat({ messages: [user], max_tokens: 4 });
    await fc.assert(
      fc.asyncProperty(options, async (asked) => {
        const { json } = await chat({ messages: [user], max_tokens: 4, ...asked });
        expect(json.choices).toEqual(plain.choices);
      }),
      { numRuns: 10 },
    );
  });
  test('top_p 0 leaves the likeliest token', async () => {
    const greedy = await chat({ messages: [user], max_tokens: 6 }),
      drawn = await chat({ messages: [user], max_tokens: 6, temperature: 2, top_p: 0 });
    expect(drawn.json.choices).toEqual(greedy.json.choices);
  });
});

describe('what is not honoured', () => {
  test('is refused by name', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.constantFrom(...Object.keys(NEUTRAL)),
        fc.constantFrom('x', 7, true, ['a'], { a: 1 }, [{ type: 'function', function: { name: 'f' } }]),
        async (field, value) => {
          fc.pre(!NEUTRAL[field]?.includes(value));
          const { status, json } = await chat({ messages: [user], [field]: value });
          expect([status, json.error.param]).toEqual([400, field]);
          expect(json.error.message).toContain(`'${field}' must be ${JSON.stringify(NEUTRAL[field]?.[0])}`);
        },
      ),
      { numRuns: 60 },
    );
  });
  test.each([
    [
      { kv: { policy: 'snapkv' } },
      'kv.policy',
      "'policy', 'budget', 'block', 'every' are fields of the request itself",
    ],
    [{ extra_body: { policy: 'snapkv' } }, 'extra_body', "'policy', 'budget', 'block'"],
    [{ web_search_options: {} }, 'web_search_options', 'is not supported'],
    [{ max_tokn: 3 }, 'max_tokn', "'max_tokn' is not supported (did you mean max_tokens"],
    [{ stream_options: { include_obfuscation: true } }, 'stream_options.include_obfuscation', 'must be false'],
  ])('%j', async (more, param, sentence) => {
    const { status, json } = await chat({ messages: [user], ...more });
    expect([status, json.error.param]).toEqual([400, param]);
    expect(json.error.message).toContain(sentence);
  });
  test.each([
    [{ role: 'assistant', content: 'a', audio: { id: 'b' } }, 'messages[0].audio'],
    [{ role: 'assistant', content: 'a', refusal: 'no' }, 'messages[0].refusal'],
    [{ role: 'assistant', function_call: { name: 'f', arguments: '{}' } }, 'messages[0].function_call'],
    [{ role: 'user', content: 'a', refusal: '' }, 'messages[0].refusal'],
    [{ role: 'user', content: [{ type: 'refusal', refusal: 'no' }] }, 'messages[0].content[0].type'],
    [{ role: 'user', content: 'a', tool_calls: [] }, 'messages[0].tool_calls'],
    [{ role: 'assistant', tool_calls: [{ function: { name: 'f' } }] }, 'messages[0].tool_calls'],
    [{ role: 'tool', content: 'a', tool_call_id: 'b' }, 'messages[0].role'],
  ])('%j', async (message, param) => {
    const { status, json } = await chat({ messages: [message, user] });
    expect([status, json.error.param]).toEqual([400, param]);
    expect(json.error.message).toContain(param);
  });
});

test('what an answer refused is its text, in each form that clients keep it', async () => {
  const tokens = async (message: object): Promise<number> => {
    const { status, json } = await chat({ messages: [user, message, user], max_tokens: 1 });
    expect(status, json.error?.message).toBe(200);
    return json.usage.prompt_tokens;
  };
  const [none, text] = [
    await tokens({ role: 'assistant', content: '' }),
    await tokens({ role: 'assistant', content: 'I cannot.' }),
  ];
  expect(text).toBeGreaterThan(none);
  for (const message of [
    { content: [{ type: 'refusal', refusal: 'I cannot.' }] },
    {
      content: [
        { type: 'text', text: '' },
        { type: 'refusal', refusal: 'I cannot.' },
      ],
    },
    { content: null, refusal: 'I cannot.' },
  ])
    expect(await tokens({ role: 'assistant', ...message })).toBe(text);
  const items = async (content: unknown): Promise<number> => {
    const { json } = await on.post('/v1/responses', {
      input: [user, { type: 'message', role: 'assistant', content }, user],
      max_output_tokens: 1,
    });
    return json.usage.input_tokens;
  };
  expect(await items([{ type: 'refusal', refusal: 'I cannot.' }])).toBe(text);
});

describe('chat_template_kwargs', () => {
  /** A template that writes what it is given of `pad`, before the conversation. */
  const render: ChatTemplate['render'] = (messages, { variables = {} } = {}) => ({
    text: String(variables['pad'] ?? '') + messages.map(({ content }) => content).join(''),
    untrusted: [],
  });
  const template: ChatTemplate = Object.assign((...given: Parameters<ChatTemplate>) => render(...given).text, {
    render,
  });
  test("reach the template, over the server's own; those that it is given anyway, or no template takes, are refused", async () => {
    const padded = await serve({
      model: { ...(await embedded()), chatTemplate: () => template },
      chatTemplateKwargs: { pad: 'xx' },
    });
    const tokens = async (more: object): Promise<number> =>
      (await padded.post('/v1/chat/completions', { messages: [user], max_tokens: 1, temperature: 0, ...more })).json
        .usage.prompt_tokens;
    const usual = await tokens({});
    expect(await tokens({ chat_template_kwargs: { pad: '' } })).toBeLessThan(usual);
    expect(await tokens({ chat_template_kwargs: { other: true } })).toBe(usual);
    const refused = await padded.post('/v1/chat/completions', {
      messages: [user],
      chat_template_kwargs: { messages: [] },
    });
    expect([refused.status, refused.json.error.param, refused.json.error.message]).toEqual([
      400,
      'chat_template_kwargs',
      "'chat_template_kwargs' must leave out messages, which every chat template is given anyway",
    ]);
    await padded.server.close();
    const { status, json } = await chat({ messages: [user], chat_template_kwargs: { pad: 'x' } });
    expect([status, json.error.message]).toEqual([
      400,
      "'chat_template_kwargs' is not supported, since this model has no chat template",
    ]);
    await expect(serve({ chatTemplateKwargs: { pad: 'x' } })).rejects.toThrow(
      'chatTemplateKwargs: expected a model with a chat template, got ',
    );
  });
});
