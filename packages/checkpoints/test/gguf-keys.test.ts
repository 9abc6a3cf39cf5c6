/** Every key of a GGUF file that may change what is computed is covered. */
import { readFileSync } from 'node:fs';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { architectures } from '../src/config/architectures.ts';
import { configFromGguf } from '../src/config/gguf-config.ts';
import type { GgufValue } from '../src/format/gguf-metadata.ts';
import { readGguf, type GgufFile } from '../src/format/gguf.ts';
import { bytesSource } from '../src/read/source.ts';
import { fixture, fixtureJson } from '@kv/model-testing/fixture';

/** Keys of gguf-py and llama.cpp: tools/reference-models/gguf_keys.py. */
const keys = fixtureJson<readonly string[]>('gguf-keys.json').filter((key) => key.startsWith('{arch}.'));
const names = [
  'llama',
  'qwen2',
  'qwen3',
  'phi3',
  'gemma2',
  'gemma3',
  'gemma4',
  'smollm3',
  'olmo2',
  'granite',
  'granitehybrid',
  'lfm2',
  'ministral3',
  'olmo3',
];
const files = new Map<string, Promise<GgufFile>>(
  names.map((name) => {
    const folder = name === 'granitehybrid' ? 'granitemoehybrid' : name;
    return [name, readGguf(bytesSource(readFileSync(fixture(`${folder}/model.gguf`)), `${name}.gguf`))];
  }),
);
async function read(name: string, change: Readonly<Record<string, GgufValue>>): ReturnType<typeof configFromGguf> {
  const file = (await files.get(name))!;
  return configFromGguf({ ...file, metadata: new Map([...file.metadata, ...Object.entries(change)]) });
}

/** Keys that do not change this decoder's logits; gguf-keys.ts has the reasons. */
const idle = new Set([
  'vocab_size',
  'tensor_data_layout',
  'attention.layer_norm_epsilon',
  'attention.group_norm_epsilon',
  'attention.group_norm_groups',
  'pooling_type',
  'classifier.pooling_type',
  // YaRN or LongRoPE only
  'rope.scaling.original_context_length',
  'rope.scaling.yarn_ext_factor',
  'rope.scaling.yarn_attn_factor',
  'rope.scaling.yarn_beta_fast',
  'rope.scaling.yarn_beta_slow',
]);
/** And of some architectures alone: one has no such layers, the other rotates nothing and has a width of its own. */
const idleIn: Readonly<Record<string, RegExp>> = {
  granite: /^ssm\./,
  granitehybrid: /^(?:rope\.|feed_forward_length$)/,
};
/** Values that no file here has, and that are no key's default. */
const values: readonly GgufValue[] = [0.37, 3.5, 7, 14, 'odd', [1, 2, 3]];

/** The prefix of a file's keys, where it is not the file's name. */
const prefixes: Readonly<Record<string, string>> = { ministral3: 'mistral3', olmo3: 'olmo2' };

describe.each(names)('%s', (name) => {
  const prefix = prefixes[name] ?? name;

  test('each key that gguf-py or llama.cpp knows changes the configuration, or is refused by name, or is idle', async () => {
    const plain = await read(name, {}),
      { metadata } = (await files.get(name))!;
    expect(keys.length).toBeGreaterThan(150);
    for (const key of keys) {
      const rest = key.slice('{arch}.'.length);
      // the new name of the factor takes precedence over the old one
      if (
        idle.has(rest) ||
        idleIn[name]?.test(rest) ||
        (rest === 'rope.scale_linear' && metadata.has(`${prefix}.rope.scaling.factor`))
      )
        continue;
      // YaRN reaches further
      if (rest === 'context_length' && metadata.has(`${prefix}.rope.scaling.factor`)) continue;
      for (const value of values.filter((each) => each !== metadata.get(`${prefix}.${rest}`)))
        try {
          expect(await read(name, { [`${prefix}.${rest}`]: value }), `${rest} = ${String(value)}`).not.toEqual(plain);
        } catch (error) {
          expect((error as Error).name, rest).toBe('KvError');
          expect((error as Error).message).toMatch(/must/);
        }
    }
  });

  test('an unknown key is refused by name, and one of another architecture or of none is not', async () => {
    const plain = await read(name, {}),
      word = fc.stringMatching(/^[a-z_]{3,10}$/);
    await fc.assert(
      fc.asyncProperty(word, fc.constantFrom<GgufValue>(0, 1, 'x', true), async (odd, value) => {
        await expect(read(name, { [`${prefix}.${odd}.q`]: value })).rejects.toThrow(
          `${prefix}.${odd}.q must be absent, got`,
        );
        expect(await read(name, { [`odd.${odd}`]: value, [`general.${odd}`]: value })).toEqual(plain);
      }),
      { numRuns: 30 },
    );
  });

  test('values that leave what is computed as it is pass', async () => {
    const { gguf, multipliers } = Object.values(architectures).find((kind) => kind.gguf === prefix)!,
      plain = await read(name, {});
    expect(gguf).toBe(prefix);
    for (const [rest, value] of [
      ['expert_count', 0],
      ['expert_used_count', 0],
      ['attention.causal', true],
      ['attention.clamp_kqv', 0],
      ['vision.block_count', 27],
      ['embedding_length_out', plain.hidden],
      ...(multipliers ? [] : [['logit_scale', 1]]),
    ] as const)
      expect(await read(name, { [`${prefix}.${rest}`]: value as GgufValue })).toEqual(plain);
  });
});

describe('linear scaling of RoPE', () => {
  test('by its old name as by its new one, which wins; none of it where the type says so', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.constantFrom('llama', 'qwen2', 'granite'),
        fc.integer({ min: 2, max: 64 }),
        async (name, by) => {
          const ropes = async (change: Readonly<Record<string, GgufValue>>): Promise<unknown> =>
            (await read(name, Object.fromEntries(Object.entries(change).map(([k, v]) => [`${name}.rope.${k}`, v]))))
              .ropes;
          const want = await ropes({ 'scaling.type': 'linear', 'scaling.factor': by });
          expect(want).not.toEqual(await ropes({}));
          expect(await ropes({ scale_linear: by })).toEqual(want);
          expect(await ropes({ scale_linear: by + 1, 'scaling.factor': by })).toEqual(want);
          expect(await ropes({ scale_linear: by, 'scaling.type': 'none' })).toEqual(await ropes({}));
        },
      ),
      { numRuns: 20 },
    );
  });

  test('goes with frequencies of the file and with a factor of cos and sin, whatever the type', async () => {
    const file = await readGguf(bytesSource(readFileSync(fixture('llama32/model.gguf')), 'llama32.gguf')),
      of = async (change: Readonly<Record<string, GgufValue>>) =>
        (await configFromGguf({ ...file, metadata: new Map([...file.metadata, ...Object.entries(change)]) })).ropes[0];
    const plain = await of({});
    expect(file.tensors.has('rope_freqs.weight')).toBe(true);
    expect((await of({ 'llama.rope.scale_linear': 4 })).divisors).toEqual(plain.divisors!.map((x) => 4 * x));
    expect(await of({ 'llama.rope.scaling.attn_factor': 1.5 })).toEqual({ ...plain, attentionFactor: 1.5 });
    expect((await read('llama', { 'llama.rope.scaling.attn_factor': 1.5 })).ropes[0].attentionFactor).toBe(1.5);
    await expect(of({ 'llama.rope.scaling.type': 'yarn' })).rejects.toThrow('scaling.type must be');
  });
});

test('ids that a sampler is to leave out do not change the decoder', async () => {
  expect(await read('llama', { 'tokenizer.ggml.suppress_tokens': [3] })).toEqual(await read('llama', {}));
});

test.each<[string, GgufValue]>([
  ['general.type', 'adapter'],
  ['adapter.lora.alpha', 16],
  ['general.tensor_extra.name', ['a']],
])('%s is refused', async (key, value) => {
  await expect(read('llama', { [key]: value })).rejects.toThrow(`llama.gguf: ${key} must be`);
});
