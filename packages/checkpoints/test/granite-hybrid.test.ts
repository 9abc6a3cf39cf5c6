/** What is read of Granite 4.0 h: which layers have the state space, how wide it is, and weights in both formats. */
import { readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { parseConfig, type ModelConfig } from '../src/config/config.ts';
import { configFromGguf } from '../src/config/gguf-config.ts';
import { slotHeads, slotLayers, stateNumbers } from '../src/config/mixers.ts';
import { readGguf } from '../src/format/gguf.ts';
import { dense } from '../src/format/matrix.ts';
import { readSafetensors } from '../src/format/safetensors.ts';
import { bytesSource } from '../src/read/source.ts';
import { configJson } from '../src/load/hub-files.ts';
import { openCheckpoint } from '../src/load/load.ts';
import { checkpointWeights, type Weights } from '../src/load/weights.ts';
import { fixture, fixtureJson } from '@kv/model-testing/fixture';
import { denseWeights } from './dense-weights.ts';

type Json = Record<string, unknown>;
const json = (name: string): Json => fixtureJson(`${name}/config.json`);

describe('the configuration', () => {
  test.each([
    ...['granitemoehybrid', 'granitemoehybrid-untied', 'granitemoehybrid-biased', 'granitemoehybrid-attention'],
    ...['granitemoehybrid-experts', 'granitemoehybrid-experts-untied'],
  ])('%s says which layers keep slots and which a state, and whether heads are rotated', (name) => {
    const given = json(name),
      config = parseConfig(given, name),
      types = given.layer_types as string[],
      [heads, d, groups, n, L] = ['n_heads', 'd_head', 'n_groups', 'd_state', 'd_conv'].map(
        (field) => given[`mamba_${field}`] as number,
      );
    expect(slotLayers(config)).toEqual([...types.keys()].filter((layer) => types[layer] === 'attention'));
    expect(config.mixers.map(stateNumbers)).toEqual(
      types.map((type) => (type === 'attention' ? 0 : (L - 1) * (heads * d + 2 * groups * n) + heads * n * d)),
    );
    expect(config.ropes.map(({ rotary }) => rotary)).toEqual(
      types.map((type) =>
        given.position_embedding_type === 'rope' && type === 'attention' ? slotHeads(config)[0].headDim : 0,
      ),
    );
    expect(parseConfig(configJson(config), 'written')).toEqual(config);
  });

  test('layers are named as published files and as transformers name them; what is absent is as there', () => {
    const { layer_types: _, mamba_n_groups: __, mamba_proj_bias: ___, ...rest } = json('granitemoehybrid'),
      want = parseConfig(json('granitemoehybrid'), 'c'),
      named = ['linear_attention', 'full_attention', 'linear_attention', 'linear_attention', 'full_attention'];
    for (const fields of [{ layer_types: named }, { layers_block_type: named }])
      expect(parseConfig({ ...rest, ...fields, mamba_d_head: 'auto', time_step_limit: undefined }, 'c')).toEqual(want);
  });
});

/** Every weight of a checkpoint as numbers; gate and up are one matrix in one format. */
async function numbers({ weights, config }: { weights: Weights; config: ModelConfig }): Promise<unknown> {
  const layers = [];
  for (const [layer, { kind }] of config.mixers.entries()) {
    layers.push(denseWeights(await weights.finish(layer)));
    layers.push(denseWeights(await (kind === 'attention' ? weights.project(layer) : weights.space!(layer))));
  }
  return { layers, norm: await weights.norm(), embed: dense(await weights.embed()), head: dense(await weights.head()) };
}

test.each(['granitemoehybrid', 'granitemoehybrid-untied', 'granitemoehybrid-attention', 'granitemoehybrid-experts'])(
  '%s: both formats give the same weights',
  async (name) => {
    const [folder, gguf] = await Promise.all(
      [fixture(name), fixture(`${name}/model.gguf`)].map((at) => openCheckpoint(at)),
    );
    expect(await numbers(gguf)).toEqual(await numbers(folder));
    await Promise.all([folder.close(), gguf.close()]);
  },
);

describe('GGUF files', () => {
  test('of Granite say whether heads are rotated, and of one with attention in every layer that it is a Granite', async () => {
    const file = await readGguf(bytesSource(readFileSync(fixture('granitemoehybrid-attention/model.gguf')), 'm')),
      config = await configFromGguf(file),
      of = async (key: string, value: unknown): Promise<ModelConfig> =>
        configFromGguf({ ...file, metadata: new Map<string, never>([...file.metadata, [key, value]] as never) });
    expect([config.architecture, config.ropes.map(({ rotary }) => rotary)]).toEqual(['granite', [8, 8]]);
    const still = await of('granite.rope.scaling.finetuned', false);
    expect(still.ropes.map(({ rotary }) => rotary)).toEqual([0, 0]);
  });
});

describe('weights that do not fit', async () => {
  const files = {
    safetensors: await readSafetensors(
      bytesSource(readFileSync(fixture('granitemoehybrid-untied/model.safetensors')), 'w'),
    ),
    gguf: await readGguf(bytesSource(readFileSync(fixture('granitemoehybrid-untied/model.gguf')), 'm')),
  };
  test.each<[keyof typeof files, string, Readonly<Record<string, readonly number[] | undefined>>]>([
    ['safetensors', 'a decay missing', { 'model.layers.1.mamba.A_log': undefined }],
    ['safetensors', 'the norm of one head', { 'model.layers.1.mamba.norm.weight': [8] }],
    ['safetensors', 'a bias that the configuration has not', { 'model.layers.1.mamba.in_proj.bias': [200] }],
    ['safetensors', 'experts', { 'model.layers.1.block_sparse_moe.router.layer.weight': [8, 32] }],
    ['gguf', 'a norm of all groups together', { 'blk.1.ssm_norm.weight': [1, 64] }],
    ['gguf', 'a kernel of another length', { 'blk.1.ssm_conv1d.weight': [128, 3] }],
    ['gguf', 'heads that skip nothing', { 'blk.1.ssm_d': undefined }],
  ])('%s: %s', (format, _, change) => {
    const file = files[format],
      config = parseConfig(json('granitemoehybrid-untied'), 'c'),
      tensors = new Map(file.tensors);
    for (const [name, shape] of Object.entries(change))
      if (shape === undefined) tensors.delete(name);
      else tensors.set(name, { type: 'F16', shape });
    expect(() =>
      checkpointWeights({ ...file, tensors }, config, format === 'gguf' ? 'gguf' : 'hugging-face'),
    ).toThrowErrorMatchingSnapshot();
  });
});
