/** What is read of Qwen 3.5: which layers have the gated delta rule, how wide it is, and weights in both formats. */
import { readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { parseConfig, type ModelConfig } from '../src/config/config.ts';
import { configFromGguf } from '../src/config/gguf-config.ts';
import { commonHeads, deltaChannels, slotLayers, stateNumbers, type GatedDelta } from '../src/config/mixers.ts';
import { readGguf, type GgufFile } from '../src/format/gguf.ts';
import { dense } from '../src/format/matrix.ts';
import { readSafetensors } from '../src/format/safetensors.ts';
import type { CheckpointTensors } from '../src/format/tensor-file.ts';
import { bytesSource } from '../src/read/source.ts';
import { configJson } from '../src/load/hub-files.ts';
import { openCheckpoint } from '../src/load/load.ts';
import { checkpointWeights, type DeltaWeights, type Weights } from '../src/load/weights.ts';
import { fixture, fixtureJson } from '@kv/model-testing/fixture';
import { denseWeights } from './dense-weights.ts';

type Json = Record<string, unknown>;
const json = (name: string): Json => fixtureJson(`${name}/config.json`);
const ofText = ({ text_config: text, ...whole }: Json): Json => ({ ...whole, ...(text as Json | undefined) });

describe('the configuration', () => {
  test.each(['qwen3_5', 'qwen3_5-untied', 'qwen3_5-biased'])(
    '%s says which layers keep slots and which a state',
    (name) => {
      const config = parseConfig(json(name), name),
        given = ofText(json(name)),
        types = given.layer_types as string[],
        n = (field: string): number => given[`linear_${field}`] as number;
      const [Hk, Hv, dk, dv] = ['num_key_heads', 'num_value_heads', 'key_head_dim', 'value_head_dim'].map(n);
      expect(slotLayers(config)).toEqual([...types.keys()].filter((layer) => types[layer] === 'full_attention'));
      expect(config.mixers.map(stateNumbers)).toEqual(
        types.map((type) =>
          type === 'full_attention' ? 0 : (n('conv_kernel_dim') - 1) * (2 * Hk * dk + Hv * dv) + Hv * dk * dv,
        ),
      );
      expect(config.ropes.map(({ rotary }) => rotary)).toEqual(
        types.map((type) => (type === 'full_attention' ? (given.head_dim as number) / 4 : 0)),
      );
      expect(config.attention.outputGate).toBe('channel');
      expect(parseConfig(configJson(config), 'written')).toEqual(config);
    },
  );

  test('the text model within a model that also reads images is the text model', () => {
    const whole = json('qwen3_5-untied'),
      text = whole.text_config as Json,
      config = parseConfig(whole, 'whole');
    expect(parseConfig(text, 'text')).toEqual(config);
    expect(parseConfig({ ...whole, tie_word_embeddings: true }, 'tied').tied).toBe(true);
    expect(parseConfig({ ...whole, tie_word_embeddings: undefined }, 'untied').tied).toBe(false);
    const { eos_token_id: _, ...without } = text;
    expect(parseConfig({ ...whole, text_config: without, eos_token_id: [5] }, 'ends').eosIds).toEqual([5]);
  });

  test('what is absent is as in transformers: attention in every fourth layer, a quarter of a head rotated', () => {
    const { layer_types: _, rope_parameters: __, ...rest } = json('qwen3_5');
    const fields = Object.entries(rest).filter(([name]) => !name.startsWith('linear_') && name !== 'head_dim');
    const config = parseConfig({ ...Object.fromEntries(fields), num_hidden_layers: 9 }, 'c');
    expect(slotLayers(config)).toEqual([3, 7]);
    expect([commonHeads(config).headDim, config.ropes[3]]).toEqual([256, { theta: 10_000, rotary: 64 }]);
    expect(config.mixers[0]).toEqual({
      kind: 'gatedDelta',
      ...{ keyHeads: 16, valueHeads: 32, keyDim: 128, valueDim: 128, kernel: 4 },
    });
  });
});

/** Puts what a gated delta rule reads of a GGUF file in the order of the value heads of safetensors. */
function grouped(
  { keyHeads, valueHeads, valueDim, keyDim, kernel }: GatedDelta,
  weights: DeltaWeights,
): Omit<DeltaWeights, 'keyHeadOf'> {
  const times = valueHeads / keyHeads,
    heads = Array.from({ length: valueHeads }, (_, h) => (h % times) * keyHeads + Math.floor(h / times));
  /** Runs of `size` numbers after the first `from`, up to `to`, head by head. */
  const moved = (numbers: Float32Array, from: number, size: number): Float32Array => {
    const out = numbers.slice();
    for (const [h, at] of heads.entries())
      out.set(numbers.subarray(from + at * size, from + (at + 1) * size), from + h * size);
    return out;
  };
  const { input, keyHeadOf, ...rest } = weights;
  expect(keyHeadOf).toBe('tiled');
  const width = input.inputs,
    keys = 2 * keyHeads * keyDim,
    [v, z] = [keys * width, (keys + valueHeads * valueDim) * width],
    [b, a] = [(keys + 2 * valueHeads * valueDim) * width, (keys + 2 * valueHeads * valueDim + valueHeads) * width];
  let rows = dense(input);
  for (const [from, size] of [
    [v, valueDim * width],
    [z, valueDim * width],
    [b, width],
    [a, width],
  ])
    rows = moved(rows, from, size);
  return {
    ...rest,
    input: {
      outputs: input.outputs,
      inputs: width,
      parts: [{ type: 'F32', rows: input.outputs, bytes: bytesOf(rows) }],
    },
    kernel: moved(rest.kernel, keys * kernel, valueDim * kernel),
    decay: moved(rest.decay, 0, 1),
    timeBias: moved(rest.timeBias, 0, 1),
  };
}

const bytesOf = (numbers: Float32Array): Uint8Array => new Uint8Array(numbers.buffer);

/** Every weight of a checkpoint as numbers, value heads in the order of safetensors. */
async function numbers(
  { weights, config }: { weights: Weights; config: ModelConfig },
  tiled: boolean,
): Promise<unknown> {
  const layers = [];
  for (const [layer, mixer] of config.mixers.entries()) {
    const { output, ...finish } = await weights.finish(layer);
    layers.push(denseWeights(finish));
    if (mixer.kind !== 'gatedDelta') layers.push(denseWeights(await weights.project(layer)), dense(output));
    else {
      const { keyHeadOf, ...read } = await weights.delta!(layer);
      layers.push(denseWeights(tiled ? grouped(mixer, { keyHeadOf, ...read }) : read));
      if (!tiled) expect(keyHeadOf).toBe('grouped');
      layers.push(tiled ? columns(mixer, dense(output)) : dense(output));
    }
  }
  return { layers, norm: await weights.norm(), embed: dense(await weights.embed()), head: dense(await weights.head()) };
}

/** Puts the columns of the output product in the order of the value heads of safetensors. */
function columns({ keyHeads, valueHeads, valueDim }: GatedDelta, rows: Float32Array): Float32Array {
  const times = valueHeads / keyHeads,
    width = valueHeads * valueDim;
  return rows.map((_, i) => {
    const [row, h, c] = [Math.floor(i / width), Math.floor((i % width) / valueDim), i % valueDim];
    return rows[row * width + ((h % times) * keyHeads + Math.floor(h / times)) * valueDim + c];
  });
}

test.each(['qwen3_5', 'qwen3_5-untied'])('%s: both formats give the same weights', async (name) => {
  const [folder, gguf] = await Promise.all(
    [fixture(name), fixture(`${name}/model.gguf`)].map((at) => openCheckpoint(at)),
  );
  expect(await numbers(gguf, true)).toEqual(await numbers(folder, false));
  await Promise.all([folder.close(), gguf.close()]);
});

const halves = (bytes: Uint8Array): Uint16Array => new Uint16Array(Uint8Array.from(bytes).buffer);

test('queries and their gates, which alternate in the file, are read apart; the gates come last', async () => {
  const { weights, config, close } = await openCheckpoint(fixture('qwen3_5-biased')),
    file = await readSafetensors(bytesSource(readFileSync(fixture('qwen3_5-biased/model.safetensors')), 'w'));
  const { hidden: D } = config,
    { queryHeads: H, kvHeads: G, headDim: d } = commonHeads(config),
    { qkv, bias } = await weights.project(0),
    stored = halves(await file.bytes('model.layers.0.self_attn.q_proj.weight'));
  expect([qkv.outputs, bias?.length]).toEqual([2 * (H + G) * d, 2 * (H + G) * d]);
  const [queries, k, v, gates] = qkv.parts.map(({ bytes }) => halves(bytes));
  expect([queries, k, v, gates].map(({ length }) => length / D)).toEqual([H * d, G * d, G * d, H * d]);
  for (let h = 0; h < H; h++) {
    expect(queries.subarray(h * d * D, (h + 1) * d * D)).toEqual(stored.subarray(2 * h * d * D, (2 * h + 1) * d * D));
    expect(gates.subarray(h * d * D, (h + 1) * d * D)).toEqual(
      stored.subarray((2 * h + 1) * d * D, (2 * h + 2) * d * D),
    );
  }
  const plain = checkpointWeights(
    {
      ...file,
      bytes: async (name) =>
        name.endsWith('q_proj.bias')
          ? new Uint8Array(Uint16Array.from({ length: 2 * H * d }, (_, i) => 0x3c00 + i).buffer)
          : file.bytes(name),
    },
    config,
  );
  const biases = (await plain.project(0)).bias!,
    one = (i: number): number => 1 + i / 1024;
  expect([...biases.subarray(0, d), ...biases.subarray(d, 2 * d)]).toEqual([
    ...Array.from({ length: d }, (_, i) => one(i)),
    ...Array.from({ length: d }, (_, i) => one(2 * d + i)),
  ]);
  expect([...biases.subarray((H + 2 * G) * d, (H + 2 * G + 1) * d)]).toEqual(
    Array.from({ length: d }, (_, i) => one(d + i)),
  );
  await close();
});

describe('GGUF files of other converters', async () => {
  const file = await readGguf(bytesSource(readFileSync(fixture('qwen3_5/model.gguf')), 'm'));
  const changed = (keys: Readonly<Record<string, unknown>>, rename = (name: string): string => name): GgufFile => {
    const names = new Map([...file.tensors.keys()].map((name) => [rename(name), name]));
    const metadata = new Map<string, unknown>([...file.metadata, ...Object.entries(keys)]);
    for (const [key, value] of metadata) if (value === undefined) metadata.delete(key);
    return {
      ...file,
      metadata: metadata as GgufFile['metadata'],
      tensors: new Map([...names].map(([name, own]) => [name, file.tensors.get(own)!])),
      bytes: (name) => file.bytes(names.get(name)!),
    };
  };

  test('Ollama lists KV heads and names one tensor otherwise', async () => {
    const ollama = changed(
      {
        'qwen35.attention.head_count_kv': [0, 2, 0, 0, 2],
        'qwen35.attention.recurrent_layers': undefined,
        'qwen35.ssm.v_head_reordered': true,
        'qwen35.rope.mrope_interleaved': true,
        'qwen35.vision.block_count': 12,
        'qwen35.image_token_id': 60,
      },
      (name) => name.replace('ssm_dt.bias', 'ssm_dt'),
    );
    const [config, want] = await Promise.all([configFromGguf(ollama), configFromGguf(file)]);
    expect(config).toEqual(want);
    expect((await checkpointWeights(ollama, config, 'gguf').delta!(0)).timeBias).toEqual(
      (await checkpointWeights(file, want, 'gguf').delta!(0)).timeBias,
    );
  });

  test('older ones say only how often attention comes, or nothing', async () => {
    const slots = async (keys: Readonly<Record<string, unknown>>): Promise<readonly number[]> =>
      slotLayers(await configFromGguf(changed({ 'qwen35.attention.recurrent_layers': undefined, ...keys })));
    expect(await slots({ 'qwen35.full_attention_interval': 2 })).toEqual([1, 3]);
    expect(await slots({ 'qwen35.full_attention_interval': undefined })).toEqual([3]);
  });

  test('one key head to a value head: nothing was reordered', async () => {
    const config = await configFromGguf(file),
      even: ModelConfig = {
        ...config,
        mixers: config.mixers.map((mixer) => (mixer.kind === 'gatedDelta' ? { ...mixer, keyHeads: 6 } : mixer)),
      };
    const wide = 3 * 6 * 16;
    const tensors = new Map(
      [...file.tensors].map(([name, entry]) => [
        name,
        name.endsWith('attn_qkv.weight')
          ? { ...entry, shape: [wide, 32] }
          : name.endsWith('ssm_conv1d.weight')
            ? { ...entry, shape: [wide, 4] }
            : entry,
      ]),
    );
    const read = checkpointWeights(
      {
        ...file,
        tensors,
        bytes: async (name) =>
          new Uint8Array(
            name.endsWith('qkv.weight')
              ? wide * 64
              : name.endsWith('conv1d.weight')
                ? wide * 16
                : (await file.bytes(name)).length,
          ),
      },
      even,
      'gguf',
    );
    expect((await read.delta!(0)).keyHeadOf).toBe('grouped');
    expect(deltaChannels(even.mixers[0] as GatedDelta)).toBe(wide);
  });
});

describe('weights that do not fit', async () => {
  const file = await readSafetensors(bytesSource(readFileSync(fixture('qwen3_5-untied/model.safetensors')), 'w')),
    gguf = await readGguf(bytesSource(readFileSync(fixture('qwen3_5-untied/model.gguf')), 'm'));
  const changed = <F extends CheckpointTensors>(
    of: F,
    change: Readonly<Record<string, readonly number[] | undefined>>,
  ): F => {
    const tensors = new Map(of.tensors);
    for (const [name, shape] of Object.entries(change))
      if (shape === undefined) tensors.delete(name);
      else tensors.set(name, { type: 'F16', shape });
    return { ...of, tensors };
  };
  const at = 'model.language_model.layers';
  test.each<[string, Readonly<Record<string, readonly number[] | undefined>>]>([
    ['queries without gates', { [`${at}.3.self_attn.q_proj.weight`]: [48, 32] }],
    ['a decay missing', { [`${at}.1.linear_attn.A_log`]: undefined }],
    ['a decay of every channel', { [`${at}.1.linear_attn.A_log`]: [36] }],
    ['a kernel of another length', { [`${at}.1.linear_attn.conv1d.weight`]: [60, 1, 3] }],
    [
      'q, k, v and z in one product, as Qwen3-Next has them',
      {
        [`${at}.0.linear_attn.in_proj_qkv.weight`]: undefined,
        [`${at}.0.linear_attn.in_proj_qkvz.weight`]: [96, 32],
      },
    ],
    ['attention as well', { [`${at}.1.self_attn.q_proj.weight`]: [96, 32] }],
    ['experts', { [`${at}.0.mlp.gate.weight`]: [8, 32] }],
    ['a norm missing', { 'model.language_model.norm.weight': undefined }],
  ])('%s', (_, change) => {
    const config = parseConfig(json('qwen3_5-untied'), 'c');
    expect(() => checkpointWeights(changed(file, change), config)).toThrowErrorMatchingSnapshot();
  });

  test.each<[string, Readonly<Record<string, readonly number[] | undefined>>]>([
    ['a layer more than the keys say, which does not draft', { 'blk.4.nextn.eh_proj.weight': undefined }],
    ['a product missing', { 'blk.0.ssm_alpha.weight': undefined }],
    ['a kernel of another length', { 'blk.0.ssm_conv1d.weight': [60, 3] }],
  ])('in GGUF, %s', async (_, change) => {
    const config = await configFromGguf(gguf);
    expect(() => checkpointWeights(changed(gguf, change), config, 'gguf')).toThrowErrorMatchingSnapshot();
  });
});
