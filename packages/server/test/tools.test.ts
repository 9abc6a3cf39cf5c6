import { readFileSync } from 'node:fs';
import { smollm2File } from '@kv/model-testing/smollm2-file';
import { loadModel } from '@kv/models';
import { Ajv } from 'ajv';
import fc from 'fast-check';
import OpenAI from 'openai';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
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

const user = { role: 'user', content: 'The river was wide.' };
const chat = (body: object, at: Serving = on) =>
  at.post('/v1/chat/completions', { messages: [user], max_tokens: 160, ...body });
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
    body: JSON.stringify({ messages: [user], max_tokens: 160, ...body, stream: true }),
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

/** Values that a constrained answer writes in a few tokens. */
const value = fc.constantFrom(
  { type: 'boolean' },
  { enum: ['a', 'Ü 文', '"quoted"\n', '<tool_call>'] },
  { type: 'integer', minimum: 0, maximum: 99 },
  { type: 'array', items: { type: 'boolean' }, maxItems: 2 },
  object({ deep: { type: 'null' } }),
);
const parameters = fc.option(fc.dictionary(fc.constantFrom('a', 'b_c', 'd e', 'Straße'), value, { maxKeys: 3 }).map(object), {
  nil: undefined,
});
const name = fc.stringMatching(/^[a-zA-Z0-9_-]{1,12}$/);
const offered = fc.uniqueArray(fc.record({ name, parameters }), { selector: (each) => each.name, minLength: 1, maxLength: 4 });

describe('calls', () => {
  test('are of functions that are offered and fit their schemas, whole and streamed alike', async () => {
    const ajv = new Ajv({ strict: false });
    await fc.assert(
      fc.asyncProperty(
        offered,
        fc.constantFrom('auto', 'none', 'required', 'named'),
        fc.boolean(),
        fc.nat({ max: 2 ** 20 }),
        async (functions, how, parallel, seed) => {
          const of = functions[seed % functions.length],
            body = {
              tools: functions.map((each) => tool(each.name, each.parameters)),
              tool_choice: how === 'named' ? { type: 'function', function: { name: of.name } } : how,
              parallel_tool_calls: parallel,
              ...{ seed, temperature: 1, n: 2 },
            };
          const [{ status, json }, choices] = await Promise.all([chat(body), streamed(body)]);
          expect([status, json.error]).toEqual([200, undefined]);
          for (const [i, { message, finish_reason }] of json.choices.entries()) {
            const calls = message.tool_calls ?? [];
            for (const { id, type, function: called } of calls) {
              expect([id, type]).toEqual([expect.stringMatching(/^\w{9}$/), 'function']);
              const wanted = functions.find((each) => each.name === called.name);
              expect(wanted, called.name).toBeDefined();
              expect(ajv.validate(wanted?.parameters ?? { type: 'object' }, JSON.parse(called.arguments))).toBe(true);
              if (how === 'named') expect(called.name).toBe(of.name);
            }
            if (how === 'none') expect(calls).toEqual([]);
            if (!parallel) expect(calls.length).toBeLessThan(2);
            if (finish_reason === 'stop') expect(calls).toEqual([]);
            if (finish_reason === 'tool_calls') expect(calls.length).toBeGreaterThan(0);
            if (how === 'required' || how === 'named') expect(finish_reason).not.toBe('stop');
            const bare = (all: any[]) => all.map(({ function: called }) => called);
            expect(choices[i]).toMatchObject({ content: message.content ?? '', finish: finish_reason });
            expect(bare(choices[i].calls)).toEqual(bare(calls));
          }
        },
      ),
      { numRuns: 12 },
    );
  });
});
