import { readFileSync } from 'node:fs';
import { reference, referenceJson } from '@kv/model-testing/reference';
import { expect, test } from 'vitest';
import { parseConfig, type ModelConfig } from '../src/config/config.ts';
import { yarnAttention } from '../src/config/rope-config.ts';
import { configJson } from '../src/load/hub-files.ts';
import { openCheckpoint } from '../src/load/load.ts';

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

test('ids with which a model pads its vocabulary have no text, and name no token in the files', async () => {
  const folder = 'data/goldens/llama',
    { model, ...rest } = referenceJson<{ model: { vocab: Record<string, number>; merges: readonly string[] } }>(
      `${folder}/tokenizer.json`,
    ),
    vocab = Object.fromEntries(Object.entries(model.vocab).filter(([, id]) => id < 472)),
    tokenizer = { ...rest, model: { ...model, vocab, merges: [] } },
    blob = (json: object): Blob => new Blob([JSON.stringify(json)]);
  const checkpoint = await openCheckpoint('/', {
    files: new Map([
      ['config.json', blob({ ...llama, bos_token_id: 0, eos_token_id: 511 })],
      ['tokenizer.json', blob(tokenizer)],
      ['model.safetensors', new Blob([readFileSync(reference(`${folder}/model.safetensors`))])],
    ]),
  });
  const { config, tokenizer: read } = checkpoint,
    padded = Array.from({ length: config.vocab - read.size }, (_, i) => read.size + i);
  expect([padded.length > 0, read.decode(padded)]).toEqual([true, '']);
  const named = JSON.parse((await checkpoint.hubFiles()).get('tokenizer_config.json') as string) as object;
  expect([Object.hasOwn(named, 'bos_token'), Object.hasOwn(named, 'eos_token')]).toEqual([true, false]);
  await checkpoint.close();
});
