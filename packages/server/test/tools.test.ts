import { readFileSync } from 'node:fs';
import { smollm2File } from '@kv/model-testing/smollm2-file';
import { grammarsOf } from '@kv/grammars';
import { loadModel } from '@kv/models';
import { Ajv } from 'ajv';
import fc from 'fast-check';
import OpenAI from 'openai';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { frames, serve } from './serve.ts';
import type { Serving } from './serve.ts';

const chatTemplate = readFileSync(new URL('../../model-testing/fixtures/hermes.jinja', import.meta.url), 'utf8');
let on: Serving, plain: Serving;
beforeAll(async () => {
  on = await serve({ model: await loadModel('embedded', { chatTemplate }) });
  plain = await serve();
});
afterAll(async () => {
  await on.server.close();
  await plain.server.close();
});

const until = async (holds: () => boolean): Promise<void> => {
  for (let i = 0; i < 3000 && !holds(); i++) await new Promise((resolve) => setTimeout(resolve, 10));
  expect(holds()).toBe(true);
};
const user = { role: 'user', content: 'The river was wide.' };
const chat = (body: object, at: Serving = on) =>
  at.post('/v1/chat/completions', { messages: [user], max_tokens: 90, ...body });
const tool = (name: string, parameters?: object) => ({ type: 'function', function: { name, parameters } });
const object = (properties: object) => ({
  type: 'object',
  properties,
  required: Object.keys(properties),
  additionalProperties: false,
});
const place = object({ city: { enum: ['Paris', 'Rome'] } });

/** A choice as a client puts it together from a stream. */
async function streamed(body: object, at: Serving = on): Promise<any[]> {
  const answer = await fetch(`${at.url}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ messages: [user], max_tokens: 90, ...body, stream: true }),
  });
  const choices: any[] = [];
  const all = await frames(answer);
  expect(all.at(-1)).toBe('[DONE]');
  for (const frame of all.slice(0, -1))
    for (const { index, delta, finish_reason } of JSON.parse(frame).choices) {
      const choice = (choices[index] ??= { content: '', reasoning: '', calls: [] });
      choice.content += delta.content ?? '';
      choice.reasoning += delta.reasoning_content ?? '';
      for (const { index: call, id, type, function: of } of delta.tool_calls ?? [])
        if (id) choice.calls[call] = { id, type, function: { ...of } };
        else choice.calls[call].function.arguments += of.arguments;
      if (finish_reason) choice.finish = finish_reason;
    }
  return choices;
}

/** Values that a constrained answer writes in a few tokens; null is one of them, although it is absent elsewhere. */
const value = fc.constantFrom<object>(
  { type: 'boolean' },
  { enum: ['a', 'Ü 文', '"quoted"\n', '<tool_call>', null] },
  { type: 'integer', minimum: 0, maximum: 99 },
  { type: 'array', items: { type: 'boolean' }, maxItems: 2 },
  object({ deep: { const: null } }),
);
const record = fc.dictionary(fc.constantFrom('a', 'b_c', 'd e', 'Straße'), value, { maxKeys: 3 }).map(object);
const offered = fc.uniqueArray(fc.record({ name: fc.stringMatching(/^[a-zA-Z0-9_-]{1,12}$/), parameters: record }), {
  selector: ({ name }) => name,
  minLength: 1,
  maxLength: 4,
});
const ajv = new Ajv({ strict: false });
const fits = (schema: object, text: string): boolean => ajv.validate(schema, JSON.parse(text));

test('calls are of functions that are offered and fit their schemas, whole and streamed alike', async () => {
  let made = 0;
  await fc.assert(
    fc.asyncProperty(
      offered,
      fc.constantFrom('auto', 'none', 'required', 'named'),
      fc.boolean(),
      fc.option(record, { nil: undefined }),
      fc.nat({ max: 2 ** 20 }),
      async (functions, how, parallel, form, seed) => {
        const of = functions[seed % functions.length],
          body = {
            tools: functions.map(({ name, parameters }) => tool(name, parameters)),
            tool_choice: how === 'named' ? { type: 'function', function: { name: of.name } } : how,
            parallel_tool_calls: parallel,
            ...(form && { response_format: { type: 'json_schema', json_schema: { name: 'form', schema: form } } }),
            ...{ seed, n: 1 + (seed % 2) },
          };
        const [{ status, json }, choices] = await Promise.all([chat(body), streamed(body)]);
        expect([status, json.error]).toEqual([200, undefined]);
        for (const [i, { message, finish_reason: finish }] of json.choices.entries()) {
          const calls: any[] = message.tool_calls ?? [];
          made += calls.length;
          for (const { id, type, function: called } of calls) {
            expect([id, type]).toEqual([expect.stringMatching(/^\w{9}$/), 'function']);
            const wanted = functions.find(({ name }) => name === called.name);
            expect(wanted && fits(wanted.parameters, called.arguments), called).toBe(true);
            if (how === 'named') expect(called.name).toBe(of.name);
          }
          if (how === 'none' || finish === 'stop') expect(calls).toEqual([]);
          if (!parallel) expect(calls.length).toBeLessThan(2);
          if (finish === 'tool_calls') expect(calls.length).toBeGreaterThan(0);
          if (how === 'required' || how === 'named') expect(finish).not.toBe('stop');
          else if (form && finish === 'stop') expect(fits(form, message.content), message.content).toBe(true);
          const bare = (all: any[]): unknown[] => all.map(({ function: called }) => called);
          expect(choices[i]).toMatchObject({ content: message.content ?? '', finish });
          expect(bare(choices[i].calls)).toEqual(bare(calls));
        }
      },
    ),
    { numRuns: 8, examples: [[[{ name: 'now', parameters: object({}) }], 'required', true, undefined, 1]] },
  );
  expect(made).toBeGreaterThan(0);
});

test('an object is written by a model that knows no functions too, and any object where that is all that is asked', async () => {
  const answers = await Promise.all(
    [undefined, place].map((schema) =>
      chat(
        {
          response_format: schema
            ? { type: 'json_schema', json_schema: { name: 'place', schema, strict: true } }
            : { type: 'json_object' },
          ...{ max_tokens: 40, seed: 1 },
        },
        plain,
      ),
    ),
  );
  const [any, one] = answers.map(({ json }) => json.choices[0]);
  expect(any.message.content).toMatch(/^\s*\{/);
  expect([one.finish_reason, fits(place, one.message.content)]).toEqual(['stop', true]);
});

test('20 at once get what they get alone, and nothing is held of them afterwards', async () => {
  const body = (i: number): object => ({
    tools: [tool(`f${i % 3}`, place), tool('other', object({}))],
    tool_choice: i % 2 === 0 ? 'required' : { type: 'function', function: { name: `f${i % 3}` } },
    ...{ seed: i, parallel_tool_calls: false },
  });
  const said = ({ json }: Awaited<ReturnType<typeof chat>>): unknown[] =>
    json.choices.map(({ message }: any) => message.tool_calls.map((call: any) => call.function));
  const together = await Promise.all(Array.from({ length: 20 }, (_, i) => chat(body(i))));
  for (const i of [0, 1, 19]) expect(said(await chat(body(i)))).toEqual(said(together[i]));
  await until(() => on.server.memory.sequences === 0 && on.server.memory.requests === 0);
});

test('streams go on while a schema compiles that takes long', async () => {
  const form = (maxLength: number): object => ({
      response_format: { type: 'json_schema', json_schema: { name: 'a', schema: { type: 'string', maxLength } } },
    }),
    answer = await fetch(`${on.url}/v1/completions`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ prompt: 'The river', stream: true, max_tokens: 400, logit_bias: { 2: -100 } }),
    });
  let frames = 0;
  const reading = (async () => {
    for await (const part of answer.body!.pipeThrough(new TextDecoderStream())) frames += part.split('\n\n').length - 1;
  })();
  await chat({ ...form(1), max_tokens: 1 }); // what compiles has begun
  const before = frames;
  expect((await chat({ ...form(110), max_tokens: 1 })).status).toBe(200);
  // an answer of one token takes a few steps of all, and so would the stream get a few frames if it had waited
  expect(frames - before).toBeGreaterThan(12);
  await reading;
});

test('a client that leaves frees what follows its grammar, as one that stays', async () => {
  const model = await loadModel('embedded', { chatTemplate }),
    grammars = grammarsOf(model),
    compile = grammars.compile.bind(grammars),
    held = new Set<object>();
  let begun = 0;
  const counted = vi.spyOn(grammars, 'compile').mockImplementation(async (form) => {
    const grammar = await compile(form);
    return Object.assign(Object.create(grammar) as typeof grammar, {
      begin() {
        const matcher = grammar.begin(),
          destroy = matcher.destroy.bind(matcher);
        held.add(matcher);
        begun++;
        return Object.assign(matcher, {
          destroy() {
            held.delete(matcher);
            destroy();
          },
        });
      },
    });
  });
  const leaving = await serve({ model });
  const asked = { messages: [user], tools: [tool('f', place)], n: 2, temperature: 1, max_tokens: 2000, stream: true };
  for (const leaves of [true, false]) {
    const gone = new AbortController(),
      answer = await fetch(`${leaving.url}/v1/chat/completions`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ ...asked, ...(!leaves && { max_tokens: 3 }) }),
        signal: gone.signal,
      });
    await answer.body?.getReader().read();
    expect(begun).toBe(leaves ? 2 : 4);
    if (leaves) {
      expect(held.size).toBe(2);
      gone.abort();
    }
    await until(() => held.size === 0);
  }
  counted.mockRestore();
  await leaving.server.close();
});

test('reasoning comes apart from what is said, goes back, and is left to a form', async () => {
  const thinks = await serve({
    model: await loadModel('embedded', {
      chatTemplate:
        '{% for m in messages %}{% if m.reasoning_content %}<think>\n{{ m.reasoning_content }}</think>{% endif %}{{ m.content }}\n{% endfor %}{% if add_generation_prompt %}<think>\n{% endif %}',
    }),
  });
  const body = { max_tokens: 8, temperature: 0, response_format: { type: 'json_object' } },
    { json } = await chat(body, thinks),
    [{ message }] = json.choices;
  expect(message).toMatchObject({ content: '', reasoning_content: expect.stringMatching(/\w/) });
  expect((await streamed(body, thinks))[0].reasoning).toBe(message.reasoning_content);
  const again = { ...body, messages: [user, message, user] };
  expect((await chat(again, thinks)).json.usage.prompt_tokens).toBeGreaterThan(json.usage.prompt_tokens + 8);
  await thinks.server.close();
});

const call = (id: string, given = '{}') => ({
    role: 'assistant',
    tool_calls: [{ id, type: 'function', function: { name: 'never_offered', arguments: given } }],
  }),
  result = (id: string) => ({ role: 'tool', tool_call_id: id, content: 'wide' });

test('calls and results of a conversation are read, of functions that are not offered too', async () => {
  const messages = [user, { ...call('c1', '{"of": "Üb"}'), content: null }, result('c1')],
    { status, json } = await chat({ messages, tools: [tool('f', place)], tool_choice: 'none', max_tokens: 4 });
  expect([status, json.choices[0].message.tool_calls]).toEqual([200, undefined]);
});

const long = { enum: Array.from({ length: 40_000 }, (_, i) => `value ${i}`) };
const refusals: readonly (readonly [object, string, string])[] = [
  [
    { tools: [tool('a', place), tool('b', object({ x: { not: {} } }))] },
    'tools[1].function.parameters',
    "'not' cannot",
  ],
  [{ tools: [tool('a', { type: 'thing' })] }, 'tools[0].function.parameters', 'type must be one'],
  [{ tools: [tool('a', { $ref: '#/$defs/a' })] }, 'tools[0].function.parameters', 'leads to nothing'],
  [{ tools: [tool('a', object({ long }))] }, 'tools', "must fit the model's context"],
  [
    { response_format: { type: 'json_schema', json_schema: { name: 'a', schema: long } } },
    'response_format',
    'at most 262144 bytes',
  ],
  [{ tools: [tool('a'), tool('b'), tool('a')] }, 'tools', "got 'a' twice"],
  [{ tools: [tool('a b')] }, 'tools[0].function.name', 'letters, digits, _ and -'],
  [{ tools: [tool('a'.repeat(65))] }, 'tools[0].function.name', 'at most 64'],
  [{ tools: Array.from({ length: 129 }, (_, i) => tool(`f${i}`)) }, 'tools', 'up to 128 functions'],
  [{ tools: [{ type: 'web_search' }] }, 'tools[0].type', "must be 'function'"],
  [{ tools: [tool('a')], tool_choice: { type: 'function', function: { name: 'b' } } }, 'tool_choice', "got 'b'"],
  [{ tool_choice: 'required' }, 'tool_choice', 'got no functions'],
  [{ functions: [{ name: 'a' }] }, 'functions', 'functions are given as tools'],
  [{ response_format: { type: 'json_schema' } }, 'response_format.json_schema', 'got none'],
  [{ response_format: { type: 'grammar' } }, 'response_format.type', "'json_object' or 'json_schema'"],
  [
    { response_format: { type: 'json_schema', json_schema: { name: 'a', schema: { uniqueItems: true } } } },
    'response_format',
    "'uniqueItems' cannot",
  ],
  [{ messages: [user, call('c1'), result('c2')] }, 'messages[2].tool_call_id', 'got "c2"'],
  [{ messages: [user, result('c1')] }, 'messages[1].tool_call_id', 'got none'],
  [{ messages: [user, call('c1', '[]'), result('c1')] }, 'messages[1].tool_calls[0].function.arguments', 'an object'],
];
test.each(refusals.map(([body, ...refused]) => [...refused, body] as const))(
  '%s is refused by name: %s',
  async (param, sentence, body) => {
    const { status, json } = await chat(body);
    expect([status, json.error.param]).toEqual([400, param]);
    expect(json.error.message).toContain(sentence);
  },
);
test('a model whose template writes no calls refuses tools, with the remedy; a schema of 10 MB is refused unread', async () => {
  const { status, json } = await chat({ tools: [tool('a')] }, plain);
  expect([status, json.error.param]).toEqual([400, 'tools']);
  expect(json.error.message).toContain('--chat-template FILE');
  const heavy = await chat({ tools: [tool('a', object({ a: { const: 'x'.repeat(10 * 2 ** 20) } }))] });
  expect([heavy.status, heavy.json.error.message]).toEqual([413, 'the body must be at most 4194304 bytes']);
});

const smollm2 = smollm2File('calls by SmolLM2');
test('a function without parameters is called with none; parameters that are no object are refused', async () => {
  for (const parameters of [undefined, { type: 'object' }, { type: 'object', properties: {}, required: [] }]) {
    const { json } = await chat({
      tools: [tool('now', parameters)],
      tool_choice: 'required',
      parallel_tool_calls: false,
    });
    const { name, arguments: given } = json.choices[0].message.tool_calls[0].function;
    expect([name, JSON.parse(given)]).toEqual(['now', {}]);
  }
  const { status, json } = await chat({ tools: [tool('now', { type: 'array' })] });
  expect([status, json.error.param]).toEqual([400, 'tools[0].function.parameters.type']);
});

test('an answer that outgrows its budget says so', async () => {
  const notes = async (more: object): Promise<unknown> =>
    (await chat({ policy: 'streaming(sinks=2) ∘ topK', budget: 8, max_tokens: 24, ...more })).json.kv.notes;
  expect(await notes({})).toEqual([expect.stringContaining("with 'every' alone")]);
  expect(await notes({ every: 1 })).toBe(undefined);
});

test.skipIf(smollm2 === undefined)('SmolLM2 calls, is told the result, and goes on from it', async () => {
  const real = await serve({ model: await loadModel(smollm2!, { chatTemplate }), memory: 2 ** 30 }),
    openai = new OpenAI({ baseURL: `${real.url}/v1`, apiKey: 'any', maxRetries: 0 });
  const asked = {
    model: 'embedded',
    tools: [
      {
        type: 'function' as const,
        function: { name: 'get_weather', parameters: object({ city: { type: 'string' } }) },
      },
    ],
    ...{ temperature: 0, max_tokens: 40, parallel_tool_calls: false },
  };
  const messages: OpenAI.ChatCompletionMessageParam[] = [{ role: 'user', content: 'What is the weather in Paris?' }];
  const { choices } = await openai.chat.completions
    .stream({ ...asked, messages, tool_choice: 'required' })
    .finalChatCompletion();
  const [{ message, finish_reason: finish }] = choices,
    [called] = message.tool_calls as OpenAI.ChatCompletionMessageFunctionToolCall[];
  expect([finish, called.function.name, JSON.parse(called.function.arguments)]).toEqual([
    'tool_calls',
    'get_weather',
    { city: 'Paris' },
  ]);
  const told = [...messages, message, { role: 'tool' as const, tool_call_id: called.id, content: '18 degrees, sunny' }],
    next = await openai.chat.completions.create({ ...asked, messages: told, max_tokens: 24 });
  expect(next.choices[0].message.content).toMatch(/\w/);
  expect(next.usage?.prompt_tokens).toBeGreaterThan(150);
  await real.server.close();
});
