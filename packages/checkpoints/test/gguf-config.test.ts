import { readFileSync } from 'node:fs';
import { beforeAll, describe, expect, test } from 'vitest';
import { configFromGguf } from '../src/config/gguf-config.ts';
import type { GgufValue } from '../src/format/gguf-metadata.ts';
import { readGguf, type GgufFile } from '../src/format/gguf.ts';
import { bytesSource } from '../src/read/source.ts';
import { checkpointWeights } from '../src/load/weights.ts';
import { parseConfig } from '../src/config/config.ts';
import { fixture, fixtureJson } from '@kv/model-testing/fixture';

const withExperts = [
  ...['gpt_oss', 'gpt_oss-tied', 'qwen3_moe', 'lfm2_moe', 'qwen3_5_moe', 'qwen3_5_moe-untied', 'granitemoe'],
  'granitemoehybrid-experts',
];
const files = new Map<string, GgufFile>();
beforeAll(async () => {
  for (const name of [
    'llama',
    'qwen2',
    'qwen3',
    'phi3',
    'gemma2',
    'gemma3',
    'smollm3',
    'olmo2',
    'granite',
    'granite_swa',
    'nemo',
    'phi4',
    'qwen3-yarn',
    'lfm2',
    'lfm2-untied',
    'qwen3_5',
    'qwen3_5-untied',
    'granitemoehybrid',
    'granitemoehybrid-untied',
    'granitemoehybrid-attention',
    'ministral3',
    'ministral3-untied',
    'olmo3',
    ...withExperts,
  ])
    files.set(name, await readGguf(bytesSource(readFileSync(fixture(`${name}/model.gguf`)), `${name}.gguf`)));
});

/** Returns a file with changed metadata; undefined removes a key. */
const changed = (name: string, change: Readonly<Record<string, GgufValue | undefined>>): GgufFile => {
  const metadata = new Map(files.get(name)!.metadata);
  for (const [key, value] of Object.entries(change))
    if (value === undefined) metadata.delete(key);
    else metadata.set(key, value);
  return { ...files.get(name)!, metadata };
};

test.each([
  'llama',
  'qwen3',
  'phi3',
  'gemma2',
  'gemma3',
  'smollm3',
  'olmo2',
  'granite',
  'granite_swa',
  'phi4',
  'qwen3-yarn',
  'lfm2',
  'lfm2-untied',
  'qwen3_5',
  'qwen3_5-untied',
  'granitemoehybrid',
  'granitemoehybrid-untied',
  'ministral3',
  'ministral3-untied',
  'olmo3',
  ...withExperts,
])('%s: metadata say what config.json says', async (name) => {
  const got = await configFromGguf(files.get(name)!),
    written = parseConfig(fixtureJson(`${name}/config.json`), name),
    hybrid = name.startsWith('granitemoehybrid'),
    want = hybrid ? { ...written, maxPositions: 2 ** 20 } : written; // as the converter writes it
  const plain = ({
    ropes,
    attention,
    normEps,
    embeddingScale,
    residualScale,
    logitScale,
    ...rest
  }: typeof got): unknown => [
    rest,
    [embeddingScale, residualScale ?? 1, logitScale ?? 1].map((x) => Math.fround(x).toPrecision(6)),
    ropes.map(({ rotary, theta }) => [rotary, theta]),
  ];
  expect(plain(got)).toEqual(plain(want));
  expect(got.attention.windows).toEqual(want.attention.windows);
  const digits = ({ normEps, attention, ropes: [rope] }: typeof got): unknown =>
    [
      normEps,
      attention.scale,
      attention.softcap ?? 0,
      rope.theta,
      rope.rotary,
      rope.attentionFactor ?? 1,
      ...(rope.divisors ?? []),
      ...(rope.long?.divisors ?? []),
    ].map((x) => Number(x.toPrecision(6)));
  expect(digits(got)).toEqual(digits(want));
});

test('keys that converters leave out, or that only some write', async () => {
  const read = async (name: string, change: Record<string, GgufValue | undefined>) =>
    configFromGguf(changed(name, change));
  expect((await read('llama', { 'llama.attention.sliding_window': 6 })).attention.windows).toEqual([6, 6]);
  expect((await read('phi3', { 'phi3.attention.sliding_window': 0 })).attention.windows).toEqual([Infinity, Infinity]);
  expect((await read('gemma2', { 'gemma2.attention.sliding_window': undefined })).attention.windows).toEqual([
    4096,
    Infinity,
    4096,
  ]);
  expect((await read('gemma2', { 'gemma2.attention.scale': undefined })).attention.scale).toBe(1 / Math.sqrt(8));
  // Gemma 2 27B is recognised by its number of layers: 4608 / 32 = 144, not its head width of 128
  expect(
    (
      await read('gemma2', {
        'gemma2.attention.scale': undefined,
        'gemma2.block_count': 46,
        'gemma2.attention.key_length': 128,
        'gemma2.attention.value_length': 128,
        'gemma2.embedding_length': 4608,
        'gemma2.attention.head_count': 32,
        'gemma2.attention.head_count_kv': 16,
      })
    ).attention.scale,
  ).toBe(1 / 12);
  expect((await read('qwen2', { 'qwen2.rope.scaling.factor': 4 })).ropes[0].divisors).toEqual([4, 4, 4, 4]);
  expect((await read('qwen2', { 'qwen2.rope.freq_base': undefined })).ropes[0]).toEqual({ theta: 10_000, rotary: 8 });
  expect((await read('llama', { 'tokenizer.ggml.eot_token_id': 5 })).eosIds).toEqual([2, 5]);
  for (const id of [64, 2 ** 32 - 1]) {
    const beyond = { 'tokenizer.ggml.eot_token_id': id, 'tokenizer.ggml.bos_token_id': id };
    expect(await read('llama', beyond)).toMatchObject({ eosIds: [2] });
    expect(await read('llama', beyond)).not.toHaveProperty('bosId');
  }
  // a Granite 4.0 with attention in every layer is written as `granitemoe`, with the feed-forward layer that it shares
  const shared = await read('granitemoe', { 'granitemoe.expert_shared_feed_forward_length': 40 });
  expect([shared.ffn, shared.experts]).toMatchObject([40, { width: 32, shared: { width: 40, gated: false } }]);
});

describe('refuses in one sentence', () => {
  test.each<[string, Record<string, GgufValue | undefined>]>([
    ['llama', { 'general.architecture': 'mamba' }],
    ['llama', { 'general.architecture': undefined }],
    [
      'llama',
      {
        'general.architecture': 'deepseek2',
        'deepseek2.expert_count': 64,
        'deepseek2.attention.kv_lora_rank': 512,
      },
    ],
    ['llama', { 'llama.block_count': 2 ** 31 }],
    ['llama', { 'llama.attention.head_count_kv': [2, 1] }],
    ['llama', { 'llama.attention.head_count_kv': [0, 2] }],
    ['llama', { 'llama.attention.head_count_kv': [] }],
    ['lfm2', { 'lfm2.attention.head_count_kv': [0, 2, 0, 0, 1] }],
    ['lfm2', { 'lfm2.attention.head_count_kv': [0, 0, 0, 0, 0] }],
    ['lfm2', { 'lfm2.attention.head_count_kv': [0, 3, 0, 0, 3] }],
    ['lfm2', { 'lfm2.attention.head_count_kv': [0, -2, 0, 0, -2] }],
    ['lfm2', { 'lfm2.shortconv.l_cache': undefined }],
    ['lfm2', { 'lfm2.shortconv.l_cache': 1 }],
    ['lfm2', { 'lfm2.attention.sliding_window': 512 }],
    ['lfm2_moe', { 'lfm2moe.expert_gating_func': 1 }],
    ['qwen3_moe', { 'qwen3moe.expert_used_count': 9 }],
    ['qwen3_moe', { 'qwen3moe.expert_count': undefined }],
    ['qwen3_moe', { 'qwen3moe.expert_weights_scale': -1 }],
    ['gpt_oss', { 'gpt-oss.expert_group_count': 2 }],
    ['llama', { 'llama.shortconv.l_cache': 3 }],
    ['llama', { 'llama.ssm.state_size': 128 }],
    ['qwen3', { 'qwen3.rope.dimension_sections': [1, 1, 1, 0] }],
    ['qwen3_5', { 'qwen35.attention.recurrent_layers': [true, false] }],
    ['qwen3_5', { 'qwen35.attention.recurrent_layers': [true, true, true, true, true] }],
    ['qwen3_5', { 'qwen35.attention.recurrent_layers': undefined, 'qwen35.full_attention_interval': 9 }],
    ['qwen3_5', { 'qwen35.attention.head_count_kv': [0, 2, 0, 0, 1] }],
    ['qwen3_5', { 'qwen35.ssm.group_count': 4 }],
    ['qwen3_5', { 'qwen35.ssm.group_count': undefined }],
    ['qwen3_5', { 'qwen35.ssm.inner_size': 50 }],
    ['qwen3_5', { 'qwen35.ssm.state_size': 2 ** 30 }],
    ['qwen3_5', { 'qwen35.ssm.conv_kernel': 1 }],
    ['qwen3_5', { 'qwen35.ssm.v_head_reordered': false }],
    ['qwen3_5', { 'qwen35.nextn_predict_layers': 5 }],
    ['qwen3_5', { 'qwen35.expert_count': 256 }],
    ['qwen3_5_moe', { 'qwen35moe.expert_shared_feed_forward_length': undefined }],
    ['qwen3_5', { 'general.architecture': 'clip' }],
    ['granitemoehybrid', { 'granitehybrid.attention.head_count_kv': [0, 0, 0, 0, 0] }],
    ['granitemoehybrid', { 'granitehybrid.ssm.group_count': 3 }],
    ['granitemoehybrid', { 'granitehybrid.ssm.inner_size': 50 }],
    ['granitemoehybrid', { 'granitehybrid.ssm.state_size': undefined }],
    ['granitemoehybrid', { 'granitehybrid.expert_count': 64 }],
    ['granitemoehybrid', { 'granitehybrid.expert_feed_forward_length': 16 }],
    ['granitemoehybrid', { 'granitehybrid.full_attention_interval': 4 }],
    ['llama', { 'llama.attention.head_count_kv': 3 }],
    ['llama', { 'llama.attention.value_length': 8 }],
    ['llama', { 'llama.rope.dimension_count': 8 }],
    ['llama', { 'llama.attention.layer_norm_rms_epsilon': undefined }],
    ['llama', { 'llama.context_length': -1 }],
    ['llama', { 'tokenizer.ggml.eos_token_id': -1 }],
    ['qwen2', { 'qwen2.rope.scaling.type': 'dynamic', 'qwen2.rope.scaling.factor': 4 }],
    ['phi3', { 'phi3.rope.dimension_count': 7 }],
    ['gemma2', { 'gemma2.attn_logit_softcapping': 0 }],
    ['llama', { 'llama.expert_count': 8 }],
    ['llama', { 'llama.attention.causal': false }],
    ['olmo2', { 'olmo2.rope.scaling.finetuned': false }],
    ['granite', { 'granite.deepstack_mapping': [1, -1] }],
    ['granite', { 'granite.logit_scale': undefined }],
    ['olmo2', { 'olmo2.attention.sliding_window': 'wide' }],
    ['olmo2', { 'olmo2.attention.temperature_scale': 0.1 }],
    ['lfm2', { 'general.architecture': 'lfm3' }],
    ['ministral3', { 'mistral3.attention.temperature_scale': -1 }],
    ['gemma3', { 'gemma3.rope.freq_base_swa': -1 }],
    ['qwen3-yarn', { 'qwen3.rope.scaling.yarn_ext_factor': 0.5 }],
    ['qwen3-yarn', { 'qwen3.rope.scaling.factor': undefined }],
    ['granite_swa', { 'granite_swa.attention.rope_pattern': [true, false] }],
    ['granite', { 'granite.attention.rope_pattern': [true, false] }],
  ])('%s with %j', async (name, change) => {
    await expect(configFromGguf(changed(name, change))).rejects.toThrowErrorMatchingSnapshot();
  });

  test('a tensor that is missing, or that nothing reads', async () => {
    const file = files.get('qwen2')!,
      config = await configFromGguf(file);
    const without = (tensor: string): GgufFile => ({
      ...file,
      tensors: new Map([...file.tensors].filter(([name]) => name !== tensor)),
    });
    expect(() => checkpointWeights(without('blk.1.attn_k.bias'), config, 'gguf')).toThrowErrorMatchingSnapshot();
    expect(() =>
      checkpointWeights(
        { ...file, tensors: new Map([...file.tensors, ['blk.0.attn_sinks.weight', { type: 'F32', shape: [4] }]]) },
        config,
        'gguf',
      ),
    ).toThrowErrorMatchingSnapshot();
    expect(() =>
      checkpointWeights(
        { ...file, tensors: new Map([...file.tensors, ['token_embd.weight', { type: 'IQ2_XS', shape: [64, 32] }]]) },
        config,
        'gguf',
      ),
    ).toThrowErrorMatchingSnapshot();
    expect(() =>
      checkpointWeights(
        { ...file, tensors: new Map([...file.tensors, ['token_embd.weight', { type: 'Q4_K', shape: [64, 32] }]]) },
        config,
        'gguf',
      ),
    ).toThrowErrorMatchingSnapshot();
  });
});
