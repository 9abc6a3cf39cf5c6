/**
 * What the newest clients get of a running server: chats, streams, tools in a loop, objects, aborts, 20 at once. Started by
 * tools/clients.mjs, which gives its address in KV_URL and the model's name in KV_MODEL. Asserts what protocols and grammars
 * say, not what a small model does.
 */
import assert from 'node:assert/strict';
import Anthropic from '@anthropic-ai/sdk';
import { createOpenAI } from '@ai-sdk/openai';
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { HumanMessage, ToolMessage } from '@langchain/core/messages';
import { tool as langchainTool } from '@langchain/core/tools';
import { ChatOpenAI } from '@langchain/openai';
import { Agent, OpenAIProvider, Runner, setTracingDisabled, tool as agentTool } from '@openai/agents';
import { generateText, Output, stepCountIs, streamText, tool as aiTool } from 'ai';
import OpenAI from 'openai';
import { zodResponseFormat, zodTextFormat } from 'openai/helpers/zod';
import { z } from 'zod';

const { KV_URL: url, KV_MODEL: model } = process.env,
  baseURL = `${url}/v1`,
  apiKey = 'any',
  openai = new OpenAI({ baseURL, apiKey, maxRetries: 0 }),
  user = { role: 'user', content: 'What is the weather in Paris?' },
  short = { model, max_tokens: 12, temperature: 0 },
  cities = ['Paris', 'Rome'],
  Place = z.object({ city: z.enum(cities), warm: z.boolean() }),
  parameters = {
    type: 'object',
    properties: { city: { type: 'string', enum: cities } },
    required: ['city'],
    additionalProperties: false,
  },
  weather = { type: 'function', function: { name: 'weather', description: 'Weather of a city.', parameters } },
  City = z.object({ city: z.enum(cities) }),
  status = async () => (await fetch(`${url}/status`)).json();

/** Waits until the server has no request left. */
async function idle() {
  for (let i = 0; i < 600; i++) {
    const { prompts } = await status();
    if (prompts.answering + prompts.reading + prompts.waiting === 0) return;
    await new Promise((done) => setTimeout(done, 50));
  }
  assert.fail('the server still answers');
}
const rejected = async (run, status) => {
  const error = await run().then(
    () => assert.fail('expected an error'),
    (cause) => cause,
  );
  assert.equal(error.status, status, error.message);
  return error;
};

const tests = {
  async 'openai: chat, its own answer as history, usage.kv'() {
    const first = await openai.chat.completions.create({ ...short, messages: [user] }),
      second = await openai.chat.completions.create({
        ...short,
        messages: [user, first.choices[0].message, { role: 'user', content: 'And tomorrow?' }],
      });
    assert.ok(second.usage.prompt_tokens > first.usage.prompt_tokens);
    assert.ok(second.usage.kv.tokens.reused > 0, 'the conversation goes on from its cache');
  },
  async 'openai: streams give what a whole answer has'() {
    const whole = await openai.chat.completions.create({ ...short, messages: [user] });
    let text = '';
    const stream = await openai.chat.completions.create({ ...short, messages: [user], stream: true });
    for await (const { choices } of stream) text += choices[0]?.delta.content ?? '';
    assert.equal(text, whole.choices[0].message.content);
  },
  async 'openai: runTools calls a function and goes on with its result'() {
    let called = 0;
    const runner = openai.chat.completions.runTools(
      {
        ...{ model, temperature: 0, max_tokens: 60, messages: [user], parallel_tool_calls: false },
        tool_choice: { type: 'function', function: { name: 'weather' } },
        tools: [
          {
            type: 'function',
            function: {
              ...weather.function,
              parse: JSON.parse,
              function: ({ city }) => {
                called++;
                assert.ok(cities.includes(city));
                return 'Sunny.';
              },
            },
          },
        ],
      },
      { maxChatCompletions: 2 },
    );
    await runner.done().catch(() => {}); // it asks for a call each time, as it was told to
    assert.ok(called > 0);
    assert.ok(runner.messages.some(({ role, content }) => role === 'tool' && content === 'Sunny.'));
  },
  async 'openai: parse gives an object'() {
    const { choices } = await openai.chat.completions.parse({
      ...{ model, max_tokens: 60, messages: [user] },
      response_format: zodResponseFormat(Place, 'place'),
    });
    Place.parse(choices[0].message.parsed);
  },
  async 'openai: responses, streamed, parsed, with a function, gone on from, and gone'() {
    const first = await openai.responses.create({ model, input: user.content, max_output_tokens: 12, temperature: 0 });
    assert.equal(first.status, 'incomplete');
    const next = await openai.responses.create({
      ...{ model, max_output_tokens: 12, previous_response_id: first.id, input: 'And tomorrow?' },
    });
    assert.ok(next.usage.input_tokens > first.usage.input_tokens);
    const parsed = await openai.responses.parse({
      ...{ model, input: user.content, max_output_tokens: 60, text: { format: zodTextFormat(Place, 'place') } },
    });
    Place.parse(parsed.output_parsed);
    let deltas = '';
    const stream = openai.responses.stream({
      ...{ model, input: user.content, max_output_tokens: 60, parallel_tool_calls: false, tool_choice: 'required' },
      tools: [{ type: 'function', name: 'weather', parameters, strict: true }],
    });
    for await (const event of stream)
      if (event.type === 'response.function_call_arguments.delta') deltas += event.delta;
    const { output } = await stream.finalResponse(),
      call = output.find(({ type }) => type === 'function_call');
    assert.equal(call.arguments, deltas);
    assert.ok(cities.includes(JSON.parse(deltas).city));
    const error = await rejected(
      () => openai.responses.create({ model, input: 'a', previous_response_id: 'resp_gone' }),
      404,
    );
    assert.ok(error instanceof OpenAI.NotFoundError && /send the whole conversation/.test(error.message));
    assert.equal((await openai.responses.retrieve(first.id)).id, first.id);
    await openai.responses.delete(first.id);
    await rejected(() => openai.responses.retrieve(first.id), 404);
  },
  async 'openai: errors have their classes'() {
    const of = (body) => rejected(() => openai.chat.completions.create({ ...short, messages: [user], ...body }), 400);
    assert.ok((await of({ temperature: 9 })) instanceof OpenAI.BadRequestError);
    assert.match((await of({ messages: [{ role: 'user', content: [{ type: 'image_url' }] }] })).message, /image|text/);
    const missing = await rejected(
      () => openai.chat.completions.create({ ...short, model: 'gpt-9', messages: [user] }),
      404,
    );
    assert.ok(missing instanceof OpenAI.NotFoundError && missing.requestID?.startsWith('req_'));
    await rejected(() => openai.embeddings.create({ model, input: 'a' }), 404);
  },
  async 'openai: an abort in the middle frees the server'() {
    const stream = await openai.chat.completions.create({ model, max_tokens: 2000, messages: [user], stream: true });
    for await (const _ of stream) break;
    stream.controller.abort();
    await idle();
  },
  async 'openai: 20 at once with one seed give one text'() {
    const all = await Promise.all(
      Array.from({ length: 20 }, () =>
        openai.chat.completions.create({ model, max_tokens: 8, seed: 7, temperature: 1, messages: [user] }),
      ),
    );
    assert.equal(new Set(all.map(({ choices }) => choices[0].message.content)).size, 1);
    await idle();
  },
  ...Object.fromEntries(
    [
      ['@ai-sdk/openai, responses', createOpenAI({ baseURL, apiKey })(model)],
      ['@ai-sdk/openai, chat', createOpenAI({ baseURL, apiKey }).chat(model)],
      [
        '@ai-sdk/openai-compatible',
        createOpenAICompatible({ name: 'kv', baseURL, apiKey, supportsStructuredOutputs: true })(model),
      ],
    ].map(([name, of]) => [
      `${name}: text, stream, object, tools in a loop`,
      async () => {
        const asked = { model: of, maxRetries: 0, maxOutputTokens: 60, temperature: 0, prompt: user.content },
          { text } = await generateText(asked);
        let streamed = '';
        for await (const part of streamText(asked).textStream) streamed += part;
        assert.equal(streamed, text);
        const { output } = await generateText({ ...asked, output: Output.object({ schema: Place }) });
        Place.parse(output);
        let called = 0;
        const loop = await generateText({
          ...asked,
          toolChoice: 'required',
          stopWhen: stepCountIs(2),
          tools: {
            weather: aiTool({
              description: 'Weather of a city.',
              inputSchema: City,
              execute: ({ city }) => {
                called++;
                return cities.includes(city) ? 'Sunny.' : assert.fail(city);
              },
            }),
          },
        });
        assert.ok(called > 0 && loop.steps.length === 2);
      },
    ]),
  ),
  async '@langchain/openai: invoke, stream, objects, a function and its result'() {
    const chat = new ChatOpenAI({
        model,
        apiKey,
        temperature: 0,
        maxTokens: 60,
        maxRetries: 0,
        configuration: { baseURL },
      }),
      { content } = await chat.invoke(user.content);
    let streamed = '';
    for await (const part of await chat.stream(user.content)) streamed += part.content;
    assert.equal(streamed, content);
    Place.parse(await chat.withStructuredOutput(Place, { method: 'jsonSchema' }).invoke(user.content));
    const tools = [langchainTool(() => 'Sunny.', { name: 'weather', description: 'Weather of a city.', schema: City })],
      asks = new HumanMessage(user.content),
      answer = await chat.bindTools(tools, { tool_choice: 'weather', parallel_tool_calls: false }).invoke([asks]);
    City.parse(answer.tool_calls[0].args);
    const results = answer.tool_calls.map(({ id }) => new ToolMessage({ tool_call_id: id, content: 'Sunny.' }));
    await chat.bindTools(tools).invoke([asks, answer, ...results]);
  },
  ...Object.fromEntries(
    [true, false].map((useResponses) => [
      `@openai/agents over ${useResponses ? 'responses' : 'chat'}: a run with a function`,
      async () => {
        setTracingDisabled(true);
        let called = 0;
        const agent = new Agent({
            name: 'guide',
            instructions: 'You tell the weather.',
            model,
            modelSettings: { temperature: 0, maxTokens: 200, toolChoice: 'required', parallelToolCalls: false },
            toolUseBehavior: 'stop_on_first_tool',
            tools: [
              agentTool({
                name: 'weather',
                description: 'Weather of a city.',
                parameters: City,
                execute: ({ city }) => {
                  called++;
                  return `${city}: sunny.`;
                },
              }),
            ],
          }),
          runner = new Runner({ modelProvider: new OpenAIProvider({ openAIClient: openai, useResponses }) });
        const { finalOutput, history } = await runner.run(agent, user.content);
        assert.match(finalOutput, /sunny/);
        assert.equal(called, 1);
        const plain = new Agent({ name: 'friend', model, modelSettings: { temperature: 0, maxTokens: 400 } });
        await runner.run(plain, [...history, { role: 'user', content: 'Thanks.' }]);
      },
    ]),
  ),
  async '@anthropic-ai/sdk: messages, streams, tools in a loop, tokens, errors'() {
    const anthropic = new Anthropic({ baseURL: url, apiKey, maxRetries: 0 }),
      asked = { model, max_tokens: 60, temperature: 0, system: 'Be brief.', messages: [user] },
      whole = await anthropic.messages.create(asked),
      stream = anthropic.messages.stream(asked);
    let text = '';
    stream.on('text', (more) => (text += more));
    assert.deepEqual((await stream.finalMessage()).content, whole.content);
    assert.equal(text, whole.content.map((block) => block.text ?? '').join(''));
    const tools = [{ name: 'weather', description: 'Weather of a city.', input_schema: parameters }],
      one = { type: 'any', disable_parallel_tool_use: true },
      first = await anthropic.messages.create({ ...asked, tools, tool_choice: one }),
      use = first.content.find(({ type }) => type === 'tool_use');
    assert.equal(first.stop_reason, 'tool_use');
    City.parse(use.input);
    await anthropic.messages.create({
      ...{ ...asked, tools },
      messages: [
        user,
        { role: 'assistant', content: first.content },
        { role: 'user', content: [{ type: 'tool_result', tool_use_id: use.id, content: 'Sunny.' }] },
      ],
    });
    const { input_tokens } = await anthropic.messages.countTokens({ model, system: 'Be brief.', messages: [user] });
    assert.equal(input_tokens, whole.usage.input_tokens + whole.usage.cache_read_input_tokens);
    const error = await rejected(() => anthropic.messages.create({ ...asked, model: 'claude-9' }), 404);
    assert.ok(error instanceof Anthropic.NotFoundError);
  },
};

const asked = process.argv[2];
let failed = 0,
  passed = 0;
for (const [name, run] of Object.entries(tests).filter(([name]) => asked === undefined || name.includes(asked)))
  try {
    const start = performance.now();
    await run();
    console.log(` ok  ${name} (${((performance.now() - start) / 1000).toFixed(1)} s)`);
    passed++;
  } catch (error) {
    console.log(`FAIL ${name}\n${error.stack}`);
    failed++;
  }
console.log(`${passed} passed, ${failed} failed`);
process.exit(failed === 0 ? 0 : 1);
