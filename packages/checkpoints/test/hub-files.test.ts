import { referenceJson } from '@kv/model-testing/reference';
import { expect, test } from 'vitest';
import { parseConfig, type ModelConfig } from '../src/config/config.ts';
import { yarnAttention } from '../src/config/rope-config.ts';
import { configJson } from '../src/load/hub-files.ts';

const llama = referenceJson<object>('data/goldens/llama/config.json');
/** What a rotation computes. */
const computed = ({ ropes, maxPositions }: ModelConfig): unknown => [
  maxPositions,
  ropes.map(({ theta, rotary, divisors, long, attentionFactor = 1 }) => ({
    ...{ theta, rotary, attentionFactor },
    divisors: divisors ?? new Array<number>(rotary / 2).fill(1),
    long: long?.divisors ?? divisors ?? new Array<number>(rotary / 2).fill(1),
  })),
];

test.each<readonly [name: string, scaling: object, factor: number]>([
  ['default', {}, 1],
  ['YaRN', { rope_type: 'yarn', factor: 4, original_max_position_embeddings: 128 }, yarnAttention(4)],
  ['linear', { rope_type: 'linear', factor: 2 }, 1],
  [
    'llama3',
    { rope_type: 'llama3', factor: 8, low_freq_factor: 1, high_freq_factor: 4, original_max_position_embeddings: 64 },
    1,
  ],
  ['default with a factor of attention, as GGUF files may have', {}, 1.25],
  ['linear with a factor of attention', { rope_type: 'linear', factor: 2 }, 1.25],
])('a rotation that is written computes what it did: %s', (_, rope_scaling, attentionFactor) => {
  const read = parseConfig({ ...llama, rope_scaling }, 'c'),
    config = { ...read, ropes: read.ropes.map((rope) => ({ ...rope, attentionFactor })) };
  expect(computed(parseConfig(configJson(config), 'written'))).toEqual(computed(config));
});

test('a factor of attention that no config.json says is refused', () => {
  const read = parseConfig(llama, 'c'),
    ropes = read.ropes.map((rope) => ({
      ...rope,
      attentionFactor: 2,
      divisors: [1, ...new Array(rope.rotary / 2 - 1).fill(Infinity)],
    }));
  expect(() => configJson({ ...read, ropes })).toThrow('config.json: expected a rotation of all pairs where attention');
});
