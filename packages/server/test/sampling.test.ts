import fc from 'fast-check';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { generate } from '@kv/models';
import type { SamplerOptions } from '@kv/models';
import { embedded, serve } from './serve.ts';
import type { Serving } from './serve.ts';

let on: Serving;
beforeAll(async () => {
  on = await serve();
});
afterAll(() => on.server.close());

const prompt = 'The river was the river';
const complete = (body: object) => on.post('/v1/completions', { prompt, max_tokens: 8, temperature: 0, ...body });

const number = (min: number, max: number): fc.Arbitrary<number> => fc.double({ min, max, noNaN: true });
/** Fields of a request beside the library's options that they are. */
const asked = fc
  .record(
    {
      temperature: number(0, 2),
      topK: fc.nat(9),
      topP: number(0.2, 1),
      minP: number(0, 1),
      repetitionPenalty: number(0.5, 2),
      frequencyPenalty: number(-2, 2),
      presencePenalty: number(-2, 2),
      logitBias: fc.dictionary(fc.nat(99).map(String), number(-100, 100), { maxKeys: 4 }),
    },
    { requiredKeys: [] },
  )
  .map((options: SamplerOptions) => ({
    options,
    fields: Object.fromEntries(
      Object.entries(options).map(([name, value]) => [name.replace(/[A-Z]/g, (c) => `_${c.toLowerCase()}`), value]),
    ),
  }));

test('answers are those of the library with the same options', async () => {
  const model = await embedded();
  await fc.assert(
    fc.asyncProperty(asked, fc.nat(), async ({ options, fields }, seed) => {
      const { status, json } = await complete({ ...fields, seed }),
        { text } = await generate(model, { prompt, maxNewTokens: 8, ...options, seed });
      expect([status, json.choices[0].text]).toEqual([200, text]);
    }),
    { numRuns: 25 },
  );
});

test("a server's own options are what a request leaves out", async () => {
  const own = await serve({ temperature: 0, repetitionPenalty: 3, logitBias: { 5: 1 } }),
    ask = async (body: object): Promise<string> =>
      (await own.post('/v1/completions', { prompt, max_tokens: 8, ...body })).json.choices[0].text,
    model = await embedded(),
    said = async (options: SamplerOptions): Promise<string> =>
      (await generate(model, { prompt, maxNewTokens: 8, ...options })).text;
  try {
    expect(await ask({})).toBe(await said({ repetitionPenalty: 3, logitBias: { 5: 1 } }));
    expect(await ask({ repetition_penalty: 1, logit_bias: {} })).toBe(await said({}));
    expect(await ask({ temperature: 1, seed: 4 })).toBe(
      await said({ temperature: 1, seed: 4, repetitionPenalty: 3, logitBias: { 5: 1 } }),
    );
  } finally {
    await own.server.close();
  }
  await expect(serve({ logitBias: { 99999999: 1 } })).rejects.toThrow('logitBias: must be for token ids below');
});

test('repeat_penalty is another name of repetition_penalty', async () => {
  const text = async (body: object): Promise<string> => (await complete(body)).json.choices[0].text,
    penalized = await text({ repetition_penalty: 3 });
  expect(await text({ repeat_penalty: 3 })).toBe(penalized);
  expect(await text({ repeat_penalty: 3, repetition_penalty: 3 })).toBe(penalized);
  expect(await text({})).not.toBe(penalized);
  const { status, json } = await complete({ repeat_penalty: 3, repetition_penalty: 2 });
  expect([status, json.error.param]).toEqual([400, 'repeat_penalty']);
});

test('values that ask for nothing change nothing', async () => {
  const nothing = fc.record(
      {
        ...{
          top_k: fc.constantFrom(null, 0, -1),
          min_p: fc.constantFrom(null, 0),
          logit_bias: fc.constantFrom(null, {}),
        },
        ...{ frequency_penalty: fc.constantFrom(null, 0), presence_penalty: fc.constantFrom(null, 0) },
        ...{ repetition_penalty: fc.constantFrom(null, 1), repeat_penalty: fc.constantFrom(null, 1) },
      },
      { requiredKeys: [] },
    ),
    drawn = { temperature: 1, seed: 3 },
    usual = (await complete(drawn)).json.choices;
  await fc.assert(
    fc.asyncProperty(nothing, async (fields) => {
      expect((await complete({ ...drawn, ...fields })).json.choices).toEqual(usual);
    }),
    { numRuns: 15 },
  );
});

test("log-probabilities are the model's own, before biases and penalties", async () => {
  const of = async (body: object) => (await complete({ logprobs: 3, max_tokens: 1, ...body })).json.choices[0],
    usual = await of({}),
    [best] = usual.logprobs.tokens,
    { ids } = (await embedded()).tokenizer.encode(best, { special: false }),
    banned = await of({ logit_bias: { [ids[0]]: -100 }, repetition_penalty: 2, presence_penalty: 2 });
  expect(ids).toHaveLength(1);
  expect(banned.logprobs.tokens[0]).not.toBe(best);
  expect(banned.logprobs.top_logprobs[0]).toMatchObject(usual.logprobs.top_logprobs[0]);
  expect(banned.logprobs.token_logprobs[0]).toBeLessThan(usual.logprobs.token_logprobs[0]);
});

test.each([
  [{ top_k: -2 }, 'top_k', 'must be a whole number of tokens, 0 or -1 for all, got -2'],
  [{ top_k: 1.5 }, 'top_k', 'must be a whole number of tokens'],
  [{ min_p: 1.1 }, 'min_p', 'must be a number from 0 to 1, got 1.1'],
  [{ frequency_penalty: 2.5 }, 'frequency_penalty', 'must be a number from -2 to 2, got 2.5'],
  [{ presence_penalty: '1' }, 'presence_penalty', 'must be a number from -2 to 2, got "1"'],
  [{ repetition_penalty: 0 }, 'repetition_penalty', 'must be a number from 0.01 to 100, got 0'],
  [{ logit_bias: { 5: 101 } }, 'logit_bias[5]', 'must be a number from -100 to 100, got 101'],
  [{ logit_bias: { the: 1 } }, 'logit_bias', 'must be an object of up to 1024 token ids with numbers'],
  [{ logit_bias: [1] }, 'logit_bias', 'must be an object of up to 1024 token ids with numbers'],
  [{ logit_bias: { 99999999: 1 } }, 'logit_bias', 'must be for token ids below'],
])('%j is refused by name', async (body, param, sentence) => {
  const { status, json } = await complete(body);
  expect([status, json.error.param]).toEqual([400, param]);
  expect(json.error.message).toContain(`'${param}' ${sentence}`);
});
