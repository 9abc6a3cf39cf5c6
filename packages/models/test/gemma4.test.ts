/** What Gemma 4 needs of files: configurations of layers that differ, and a table whose rows are read as tokens come. */
import { readFileSync } from 'node:fs';
import { checkpointWeights, fileSource, openCheckpoint, parseConfig, readGguf, readSafetensors } from '@kv/checkpoints';
import { fixture, fixtureJson, goldenOutputs } from '@kv/model-testing/fixture';
import { relative } from '@kv/engine-testing/run';
import { describe, expect, test } from 'vitest';
import { generate, loadModel } from '../src/index.ts';

const names = ['gemma4', 'gemma4-unshared', 'gemma4-keys', 'gemma4-experts'] as const;

describe.each(names)('%s', (name) => {
  test('says the same in both formats, and as a config.json made of the GGUF file', async () => {
    const { config, close } = await openCheckpoint(fixture(name)),
      gguf = await openCheckpoint(fixture(`${name}/model.gguf`)),
      files = await gguf.hubFiles();
    const { architecture, ...rest } = config;
    expect(architecture).toBe('gemma4_text');
    expect(gguf.config).toEqual({ architecture, ...rest, normEps: Math.fround(rest.normEps) }); // as GGUF stores it
    expect(parseConfig(JSON.parse(files.get('config.json')!), 'config.json')).toEqual(gguf.config);
    await close();
    await gguf.close();
  });
});

test('layers have their own heads, and the last ones read the slots of the last of their kind', () => {
  const { mixers, ropes, ffns, perLayer, attention } = parseConfig(fixtureJson('gemma4/config.json'), 'config.json'),
    wide = { kind: 'attention', kvHeads: 1, headDim: 24 },
    narrow = { kind: 'attention', kvHeads: 1, headDim: 12 };
  expect(mixers).toEqual([
    ...[narrow, narrow, wide],
    ...[1, 1, 2, 1, 2].map((slotsOf) => ({ ...(slotsOf === 1 ? narrow : wide), slotsOf })),
  ]);
  expect([ffns, perLayer, attention.scale]).toEqual([[40, 40, 40, 80, 80, 80, 80, 80], 12, 1]);
  expect([ropes[0], ropes[2]]).toEqual([
    { theta: 1e4, rotary: 12 },
    { theta: 1e6, rotary: 24, divisors: [1, 1, 1, ...Array<number>(9).fill(Infinity)] },
  ]);
});

test('the fields that older files have, and those of the model that reads more', () => {
  const { per_layer_config: _, ...older } = fixtureJson<Record<string, unknown>>('gemma4-keys/config.json'),
    config = parseConfig({ ...older, global_head_dim: 24, num_global_key_value_heads: 2 }, 'c');
  expect(config).toEqual(parseConfig(fixtureJson('gemma4-keys/config.json'), 'c'));
  const unified = {
    model_type: 'gemma4_unified',
    text_config: { ...older, model_type: 'gemma4_unified_text', global_head_dim: 24, num_global_key_value_heads: 2 },
  };
  expect(parseConfig(unified, 'c')).toEqual(config);
});

test.each([
  [{ enable_moe_block: true }, 'num_experts must be an integer from 1 to 4096, got nothing'],
  [{ enable_moe_block: 1 }, 'enable_moe_block must be true or false, got 1'],
  [
    { num_kv_shared_layers: 7 },
    'num_kv_shared_layers must leave a layer without a window whose slots layer 2 can read, got 7',
  ],
  [
    { per_layer_config: { 2: { sliding_window: 3 } } },
    'per_layer_config.2 must hold head_dim and num_key_value_heads, got "sliding_window"',
  ],
  [
    { per_layer_config: { 2: { head_dim: 24 }, 5: { head_dim: 32 } } },
    'head_dim must be the same in all layers without a window, got 24 and 32 and 12',
  ],
  [
    { per_layer_config: { 2: { num_key_value_heads: 4 } } },
    'num_attention_heads must be a multiple of the KV heads of each layer (4), got 6',
  ],
  [
    { hidden_size_per_layer_input: 8, vocab_size_per_layer_input: 63 },
    'vocab_size_per_layer_input must be vocab_size (64), got 63',
  ],
])('%o is refused in a sentence', (change, sentence) => {
  const config = fixtureJson<Record<string, unknown>>('gemma4-keys/config.json');
  expect(() => parseConfig({ ...config, ...change }, 'c')).toThrow(`c: ${sentence}`);
});

test.each(['.', 'model.gguf'])(
  'the table of inputs of layers is read row by row, as tokens come (%s)',
  async (format) => {
    const folder = fixture('gemma4-unshared'),
      tensors = format === '.' ? 'model.safetensors' : format,
      bytes = readFileSync(`${folder}/${tensors}`),
      reads: (readonly [from: number, to: number])[] = [];
    const files = new Map(
      [tensors, 'config.json', 'tokenizer.json'].map((name) => {
        const blob = new Blob([readFileSync(`${folder}/${name}`)]);
        return [
          name,
          {
            size: blob.size,
            slice: (from: number, to: number) => {
              if (name === tensors && from > 0) reads.push([from, to]);
              return blob.slice(from, to);
            },
          },
        ] as const;
      }),
    );
    const model = await loadModel(format === '.' ? 'gemma4' : format, { files }),
      row = 2 * 8 * 4, // f16, of eight layers
      whole = await readTable(`${folder}/${tensors}`, format),
      at = bytes.indexOf(whole),
      ofTable = (): readonly (readonly [number, number])[] =>
        reads.filter(([from, to]) => from < at + whole.length && to > at);
    expect(at).toBeGreaterThan(0);
    expect(ofTable()).toEqual([]);
    expect(model.weightBytes).toBeLessThan(bytes.length - whole.length);
    const { ids, logits } = goldenOutputs('gemma4-unshared', format)[0],
      { logits: last } = await generate(model, { ids, maxNewTokens: 0, logits: 1 });
    expect(relative(last![0], logits[ids.length - 1])).toBeLessThan(1e-5);
    expect(new Set(ofTable().map(([from, to]) => `${(from - at) / row} ${to - from}`))).toEqual(
      new Set(ids.map((id) => `${id} ${row}`)),
    );
    model.destroy();
  },
);

/** Returns the bytes of the table of a file. */
async function readTable(path: string, format: string): Promise<Uint8Array> {
  if (format !== '.') {
    const file = await readGguf(await fileSource(path));
    return file.bytes('per_layer_token_embd.weight').finally(() => file.close());
  }
  const file = await readSafetensors(await fileSource(path));
  return file.bytes('model.embed_tokens_per_layer.weight').finally(() => file.close());
}

test('factors of experts may be absent from a GGUF file, and only there', async () => {
  const config = parseConfig(fixtureJson('gemma4-experts/config.json'), 'gemma4-experts');
  for (const [file, name] of [
    ['model.gguf', 'blk.3.ffn_down_exps.scale'],
    ['model.safetensors', 'model.language_model.layers.3.router.per_expert_scale'],
  ] as const) {
    const gguf = file === 'model.gguf',
      source = await fileSource(fixture(`gemma4-experts/${file}`)),
      whole = gguf ? await readGguf(source) : await readSafetensors(source),
      tensors = new Map([...whole.tensors].filter(([tensor]) => tensor !== name)),
      weights = () => checkpointWeights({ ...whole, tensors }, config, gguf ? 'gguf' : 'hugging-face');
    expect(tensors.size).toBe(whole.tensors.size - 1);
    if (gguf) {
      const read = weights(),
        factors = await Promise.all(
          [2, 3].map(async (layer) => (await read.finish(layer)).experts?.weightScale?.length),
        );
      expect(factors).toEqual([7, undefined]);
    } else expect(weights).toThrow(`expected a tensor ${name} of shape [7]`);
    await whole.close();
  }
});

test('a factor that one layer lacks is named', async () => {
  const file = await readSafetensors(await fileSource(fixture('gemma4-keys/model.safetensors'))),
    config = parseConfig(fixtureJson('gemma4-keys/config.json'), 'gemma4-keys'),
    tensors = new Map(file.tensors),
    name = [...tensors.keys()].find((tensor) => tensor.endsWith('layers.3.layer_scalar'))!; // of every layer
  tensors.delete(name);
  expect(() => checkpointWeights({ ...file, tensors }, config)).toThrow(`expected a tensor ${name} of shape [1]`);
  await file.close();
});
