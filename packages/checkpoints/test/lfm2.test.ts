/** What is read of LFM2: which layers convolve, how wide they are, and their weights in both formats. */
import { readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { parseConfig } from '../src/config/config.ts';
import { slotLayers, stateNumbers } from '../src/config/mixers.ts';
import { dense } from '../src/format/matrix.ts';
import { readSafetensors } from '../src/format/safetensors.ts';
import type { CheckpointTensors } from '../src/format/tensor-file.ts';
import { bytesSource } from '../src/read/source.ts';
import { configJson } from '../src/load/hub-files.ts';
import { openCheckpoint } from '../src/load/load.ts';
import { checkpointWeights, type Weights } from '../src/load/weights.ts';
import { fixture, fixtureJson } from '@kv/model-testing/fixture';
import { denseWeights } from './dense-weights.ts';

const json = (name: string): Record<string, unknown> => fixtureJson(`${name}/config.json`);

describe('the configuration', () => {
  test.each(['lfm2', 'lfm2-untied', 'lfm2-biased'])('%s says which layers keep slots and which a state', (name) => {
    const config = parseConfig(json(name), name),
      { layer_types, conv_L_cache, hidden_size } = json(name) as {
        layer_types: string[];
        conv_L_cache: number;
        hidden_size: number;
      };
    expect(slotLayers(config)).toEqual(
      [...layer_types.keys()].filter((layer) => layer_types[layer] === 'full_attention'),
    );
    expect(config.mixers.map(stateNumbers)).toEqual(
      layer_types.map((type) => (type === 'conv' ? (conv_L_cache - 1) * hidden_size : 0)),
    );
    expect(config.ropes.map(({ rotary }) => rotary > 0)).toEqual(layer_types.map((type) => type !== 'conv'));
    expect(parseConfig(configJson(config), 'written')).toEqual(config);
  });

  test('older files name the layers with attention, and some fields otherwise', () => {
    const { layer_types: _, intermediate_size: width, tie_word_embeddings: __, ...rest } = json('lfm2'),
      older = { ...rest, full_attn_idxs: [1, 4], block_ff_dim: width, tie_embedding: true, intermediate_size: 7 };
    expect(parseConfig(older, 'older')).toEqual(parseConfig(json('lfm2'), 'lfm2'));
    expect(slotLayers(parseConfig({ ...older, full_attn_idxs: null }, 'all'))).toEqual([0, 1, 2, 3, 4]);
    expect(parseConfig({ ...older, tie_embedding: false }, 'untied').tied).toBe(false);
  });

  // hidden, block_ff_dim, width in llama.cpp's table of LFM2's sizes
  test.each([
    [1024, 6656, 4608],
    [1536, 10_240, 6912],
    [2048, 12_288, 8192],
  ])('feed-forward layers of %i channels', (hidden_size, block_ff_dim, want) => {
    const of = (change: object): number =>
      parseConfig(
        {
          ...{ ...json('lfm2'), block_ffn_dim_multiplier: 1, block_multiple_of: 256 },
          ...{ hidden_size, block_ff_dim, ...change },
        },
        'c',
      ).ffn;
    expect(of({})).toBe(want);
    expect(of({ block_auto_adjust_ff_dim: false })).toBe(block_ff_dim);
    expect(of({ block_ffn_dim_multiplier: null })).toBe(Math.floor((2 * block_ff_dim) / 3));
  });
});

/** Every weight of a checkpoint as numbers. */
async function numbers({ weights, config }: { weights: Weights; config: Parameters<typeof slotLayers>[0] }) {
  const layers = [];
  for (const [layer, { kind }] of config.mixers.entries())
    layers.push(
      denseWeights(await (kind === 'attention' ? weights.project(layer) : weights.convolution!(layer))),
      denseWeights(await weights.finish(layer)),
    );
  return { layers, norm: await weights.norm(), embed: dense(await weights.embed()), head: dense(await weights.head()) };
}

test.each(['lfm2', 'lfm2-untied'])('%s: both formats give the same weights', async (name) => {
  const [folder, gguf] = await Promise.all(
    [fixture(name), fixture(`${name}/model.gguf`)].map((at) => openCheckpoint(at)),
  );
  expect(await numbers(gguf)).toEqual(await numbers(folder));
  await Promise.all([folder.close(), gguf.close()]);
});

describe('weights that do not fit', async () => {
  const file = await readSafetensors(bytesSource(readFileSync(fixture('lfm2-biased/model.safetensors')), 'w')),
    config = parseConfig(json('lfm2-biased'), 'c');
  const at = 'model.layers.1.conv';
  const changed = (change: Readonly<Record<string, readonly number[] | undefined>>): CheckpointTensors => {
    const tensors = new Map(file.tensors);
    for (const [name, shape] of Object.entries(change))
      if (shape === undefined) tensors.delete(name);
      else tensors.set(name, { type: 'F16', shape });
    return { ...file, tensors };
  };
  test.each<[string, Parameters<typeof changed>[0]]>([
    ['a kernel missing', { [`${at}.conv.weight`]: undefined }],
    ['a kernel of another length', { [`${at}.conv.weight`]: [32, 1, 3] }],
    ['a kernel that mixes channels', { [`${at}.conv.weight`]: [32, 32, 5] }],
    ['two thirds', { [`${at}.in_proj.weight`]: [64, 32] }],
    ['a bias missing', { [`${at}.conv.bias`]: undefined }],
    ['attention as well', { 'model.layers.1.self_attn.q_proj.weight': [32, 32] }],
    ['a norm under another name', { 'model.embedding_norm.weight': undefined, 'model.norm.weight': [32] }],
  ])('%s', (_, change) => {
    expect(() => checkpointWeights(changed(change), config)).toThrowErrorMatchingSnapshot();
  });
  test('a bias that the configuration does not name', () => {
    const plain = parseConfig({ ...json('lfm2-biased'), conv_bias: false }, 'c');
    expect(() => checkpointWeights(file, plain)).toThrowErrorMatchingSnapshot();
  });
});
