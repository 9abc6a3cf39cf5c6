/** What config.json says of rotation and windows, compared with what transformers makes of the same fields. */
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { fixtureJson } from '@kv/model-testing/fixture';
import { parseConfig } from '../src/config/config.ts';
import { configJson } from '../src/load/hub-files.ts';

/** Returns a fixture's configuration without anything of its rotation. */
function plain(name: string): Record<string, unknown> {
  const {
    rope_parameters: _,
    rope_scaling: __,
    rope_theta: ___,
    ...rest
  } = fixtureJson<Record<string, unknown>>(`${name}/config.json`);
  return rest;
}
const parsed = (config: object) => parseConfig(config, 'c');

const theta = fc.integer({ min: 1000, max: 1e7 }),
  scaling = fc
    .record({
      key: fc.constantFrom('rope_type', 'type'),
      type: fc.constantFrom('linear', 'yarn'),
      factor: fc.integer({ min: 1, max: 40 }),
      original: fc.integer({ min: 32, max: 4096 }),
    })
    .map(({ key, type, factor, original }) => ({
      ...{ [key]: type, factor },
      ...(type === 'yarn' && { original_max_position_embeddings: original }),
    }));

test('a scaling that is added to a file with parameters counts, over the base of the model', () => {
  fc.assert(
    fc.property(theta, scaling, fc.boolean(), (rope_theta, rope_scaling, outer) => {
      const read = parsed({
        ...plain('qwen3'),
        ...(outer && { rope_theta }),
        ...{ rope_parameters: { rope_type: 'default', rope_theta: outer ? 7 : rope_theta }, rope_scaling },
      });
      expect(read).toEqual(parsed({ ...plain('qwen3'), rope_theta, rope_scaling }));
      expect(read.ropes[0]).toMatchObject({ theta: rope_theta, divisors: expect.any(Array) });
    }),
  );
});

test.each(['gemma3', 'olmo3'])('%s: it scales the layers without a window alone', (name) => {
  fc.assert(
    fc.property(theta, scaling, (rope_theta, rope_scaling) => {
      const sliding_attention = { rope_type: 'default', rope_theta: 5000 },
        both = (full: object, more = {}) =>
          parsed({ ...plain(name), rope_parameters: { full_attention: full, sliding_attention }, ...more });
      expect(both({ rope_type: 'default', rope_theta }, { rope_scaling })).toEqual(
        both({ rope_theta, ...rope_scaling }),
      );
    }),
  );
});

test.each([{}, null])('a scaling %j is none', (rope_scaling) => {
  const rope_parameters = { rope_type: 'linear', factor: 3, rope_theta: 5000 };
  expect(parsed({ ...plain('llama'), rope_parameters, rope_scaling })).toEqual(
    parsed({ ...plain('llama'), rope_parameters }),
  );
  expect(parsed({ ...plain('gpt_oss'), rope_scaling })).toEqual(parsed(plain('gpt_oss')));
});

test('gpt-oss has YaRN where a file says nothing', () => {
  const rope = { rope_type: 'yarn', factor: 32, truncate: false, original_max_position_embeddings: 4096 };
  const read = parsed({ ...plain('gpt_oss'), rope_theta: 150_000 });
  expect(read).toEqual(parsed({ ...plain('gpt_oss'), rope_scaling: rope }));
  expect(read.ropes[0].attentionFactor).toBeCloseTo(0.1 * Math.log(32) + 1, 12);
});

test.each(['gpt_oss', 'ministral3'])('%s: a rotation without scaling is written as such', (name) => {
  const read = parsed({ ...plain(name), rope_parameters: { rope_type: 'default', rope_theta: 5000 } });
  expect(read.ropes[0].divisors).toBeUndefined();
  expect(parseConfig(configJson(read), 'written').ropes).toEqual(read.ropes);
});

test('Phi-3 calls LongRoPE su and yarn too, and was trained at 4,096 positions where a file says nothing', () => {
  const { original_max_position_embeddings: _, ...rest } = plain('phi4'),
    lists = fixtureJson<{ rope_parameters?: object; rope_scaling?: object }>('phi4/config.json');
  const given = { ...lists.rope_parameters, ...lists.rope_scaling },
    read = (rope_type: string, more = {}) =>
      parsed({ ...rest, max_position_embeddings: 131_072, rope_scaling: { ...given, rope_type }, ...more });
  const long = read('longrope');
  expect(long.ropes[0].long?.beyond).toBe(4096);
  expect(read('su')).toEqual(long);
  expect(read('yarn')).toEqual(long);
  expect(read('yarn', { original_max_position_embeddings: 64 }).ropes[0].long?.beyond).toBe(64);
});

test.each([
  { rope_type: 'llama3', factor: 8, low_freq_factor: 1, high_freq_factor: 4 },
  { rope_type: 'yarn', factor: 8 },
])('positions in training are those of the file where $rope_type names none', (rope_scaling) => {
  fc.assert(
    fc.property(fc.integer({ min: 32, max: 100_000 }), (positions) => {
      const named = { ...rope_scaling, original_max_position_embeddings: positions };
      const { ropes } = parsed({ ...plain('llama'), rope_scaling: named });
      expect(parsed({ ...plain('llama'), max_position_embeddings: positions, rope_scaling }).ropes).toEqual(ropes);
      const next = { original_max_position_embeddings: positions };
      expect(parsed({ ...plain('llama'), ...next, rope_scaling }).ropes).toEqual(ropes);
    }),
  );
});

test('the window of Qwen 3 with experts is that of every layer, if it is asked for', () => {
  const windows = (change: object) => parsed({ ...plain('qwen3_moe'), ...change }).attention.windows;
  const every = windows({ use_sliding_window: true, sliding_window: 9, max_window_layers: 2 });
  expect(new Set(every)).toEqual(new Set([9]));
  expect(new Set(windows({ use_sliding_window: true, sliding_window: undefined }))).toEqual(new Set([4096]));
  expect(new Set(windows({ sliding_window: 9 }))).toEqual(new Set([Infinity]));
});

test('heads of Qwen 3 with experts are as wide as the model divides, those of Qwen 3 have 128 channels', () => {
  const width = (name: string) => {
    const { head_dim: _, ...lacking } = plain(name);
    return parsed({ ...lacking, hidden_size: 96, num_attention_heads: 4, num_key_value_heads: 2 }).mixers[0];
  };
  expect(width('qwen3_moe')).toMatchObject({ headDim: 24 });
  expect(width('qwen3')).toMatchObject({ headDim: 128 });
});

test('a text model within one of images has the sizes of its class where older files leave them out', () => {
  // text_config of google/gemma-3-4b-it, and what its class adds
  const text = {
    ...{ hidden_size: 2560, intermediate_size: 10_240, model_type: 'gemma3_text', num_hidden_layers: 34 },
    ...{ rope_scaling: { factor: 8, rope_type: 'linear' }, sliding_window: 1024 },
  };
  const config = parsed({ model_type: 'gemma3', text_config: text, eos_token_id: [1, 106], vision_config: {} });
  expect(config).toMatchObject({ architecture: 'gemma3_text', queryHeads: 8, vocab: 262_208, eosIds: [1, 106] });
  expect(config.mixers[0]).toMatchObject({ kvHeads: 4, headDim: 256 });
  expect([config.tied, config.activation, config.attention.scale]).toEqual([true, 'gelu', 1 / 16]);
  expect(config.ropes.slice(4, 6).map((rope) => [rope.theta, rope.divisors?.[0]])).toEqual([
    [10_000, undefined],
    [1e6, 8],
  ]);
  expect(config.attention.windows.slice(4, 6)).toEqual([1024, Infinity]);
});
