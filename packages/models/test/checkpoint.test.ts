import { cpSync, existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { readSafetensors, bytesSource, checkpointWeights, dense, onlyAttention, parseConfig } from '@kv/checkpoints';
import { generate, loadModel, type ModelConfig, type Weights } from '../src/index.ts';
import { f32Bytes, writeSafetensors, type TensorBytes } from '@kv/model-testing/safetensors-file';
import { reference, referenceJson } from '@kv/model-testing/reference';

const granite4 = {
  ...{ model_type: 'granitemoehybrid', num_local_experts: 0, shared_intermediate_size: 96 },
  ...{ mamba_n_heads: 8, mamba_d_head: 16, layer_types: ['mamba', 'attention', 'mamba', 'attention'] },
};
const good = (): Record<string, unknown> => referenceJson('data/goldens/llama/config.json');

describe('parseConfig', () => {
  test('reads both places of rope_theta, one end id or several', () => {
    const config = parseConfig(good(), 'c');
    expect(config).toEqual({
      architecture: 'llama',
      layers: 4,
      mixers: onlyAttention(4, { kvHeads: 2, headDim: 16 }),
      queryHeads: 4,
      hidden: 64,
      ffn: 144,
      vocab: 512,
      ropes: Array(4).fill({ theta: 10_000, rotary: 16 }),
      attention: { scale: 0.25, windows: [Infinity, Infinity, Infinity, Infinity] },
      biases: { qkv: false, output: false, ffn: false },
      activation: 'silu',
      embeddingScale: 1,
      normEps: 1e-6,
      maxPositions: 2048,
      tied: true,
      bosId: 0,
      eosIds: [0],
    });
    const { rope_parameters: _, head_dim: __, bos_token_id: ___, ...rest } = good();
    expect(parseConfig({ ...rest, rope_theta: 5e5, eos_token_id: [1, 2] }, 'c')).toEqual({
      ...Object.fromEntries(Object.entries(config).filter(([name]) => name !== 'bosId')),
      ropes: Array(4).fill({ theta: 5e5, rotary: 16 }),
      eosIds: [1, 2],
    });
  });

  test.each<[Record<string, unknown> | string | null]>([
    ['no object'],
    [null],
    [{ model_type: 'mamba' }],
    [{ model_type: 'toString' }],
    [{ model_type: 'qwen3_moe', num_experts: 4, num_experts_per_tok: 5 }],
    [{ model_type: 'qwen3_moe', mlp_only_layers: [4] }],
    [{ model_type: 'paligemma', vision_config: {}, num_experts: 0, kv_lora_rank: null }],
    [{ model_type: undefined }],
    [{ hidden_size: undefined }],
    [{ hidden_size: '64' }],
    [{ num_hidden_layers: 0 }],
    [{ num_hidden_layers: 2.5 }],
    [{ num_key_value_heads: 3 }],
    [{ head_dim: 15 }],
    [{ head_dim: undefined, hidden_size: 66 }],
    [{ rms_norm_eps: 0 }],
    [{ rope_parameters: { rope_theta: -1 } }],
    [{ rope_parameters: { rope_theta: 1e4, rope_type: 'dynamic', factor: 4 } }],
    [{ rope_parameters: null, rope_scaling: { type: 'linear' } }],
    [
      {
        rope_parameters: {
          rope_type: 'llama3',
          factor: 8,
          low_freq_factor: 4,
          high_freq_factor: 1,
          original_max_position_embeddings: 64,
        },
      },
    ],
    [{ rope_parameters: { rope_type: 'longrope', short_factor: [1, 2], long_factor: [1, 2] } }],
    [{ rope_parameters: { rope_type: 'longrope', short_factor: [1, 1, 1, 1, 1, 1, 1, 0], long_factor: [1, 2] } }],
    [{ partial_rotary_factor: 0.5 }],
    [{ model_type: 'phi3', partial_rotary_factor: 1.5 }],
    [{ model_type: 'phi3', partial_rotary_factor: 0.2 }],
    [{ attention_bias: 'yes' }],
    [{ mlp_bias: 1 }],
    [{ model_type: 'mistral', sliding_window: 0 }],
    [{ model_type: 'qwen2', use_sliding_window: true, layer_types: ['full_attention'] }],
    [{ model_type: 'gemma2', layer_types: ['chunked_attention', 'a', 'b', 'c'] }],
    [{ model_type: 'gemma2', use_bidirectional_attention: true }],
    [{ model_type: 'gemma2', query_pre_attn_scalar: -1 }],
    [{ model_type: 'gemma3' }],
    [{ model_type: 'gemma3_text', rope_parameters: { sliding_attention: { rope_type: 'yarn', factor: 2 } } }],
    [{ model_type: 'gemma3_text', rope_parameters: { full_attention: 3 } }],
    [{ model_type: 'gemma3_text', sliding_window_pattern: 0 }],
    [{ model_type: 'smollm3', no_rope_layers: [1, 0] }],
    [{ model_type: 'granite', residual_multiplier: 0 }],
    [{ model_type: 'olmo2', hidden_act: 'relu' }],
    [{ model_type: 'lfm2', layer_types: ['conv', 'full_attention'] }],
    [{ model_type: 'lfm2', layer_types: ['conv', 'conv', 'conv', 'sliding_attention'] }],
    [{ model_type: 'lfm2', layer_types: ['conv', 'conv', 'conv', 'conv'] }],
    [{ model_type: 'lfm2', full_attn_idxs: [1, 4] }],
    [{ model_type: 'lfm2', full_attn_idxs: 2 }],
    [{ model_type: 'lfm2', full_attn_idxs: [1], conv_L_cache: 1 }],
    [{ model_type: 'lfm2', full_attn_idxs: [1], conv_L_cache: 2 ** 30 }],
    [{ model_type: 'lfm2', full_attn_idxs: [1], conv_bias: 'no' }],
    [{ model_type: 'lfm2', block_ffn_dim_multiplier: -1 }],
    [{ model_type: 'lfm2', block_ffn_dim_multiplier: 1e-9 }],
    [{ model_type: 'lfm2', block_multiple_of: 0 }],
    [{ model_type: 'lfm2_moe', full_attn_idxs: [1], num_dense_layers: 5 }],
    [{ model_type: 'lfm2_moe', full_attn_idxs: [1], use_expert_bias: 1 }],
    [{ model_type: 'mixtral', num_local_experts: 8 }],
    [{ model_type: 'gpt_oss', quantization_config: { quant_method: 'awq' } }],
    [{ model_type: 'gpt_oss', quantization_config: { quant_method: 'mxfp4' }, swiglu_limit: 5 }],
    [{ model_type: 'granite_swa', layer_rope_theta: [1e4, -1] }],
    [{ model_type: 'qwen3_5_text', layer_types: ['linear_attention', 'full_attention'] }],
    [{ model_type: 'qwen3_5_text', layer_types: ['conv', 'conv', 'conv', 'full_attention'] }],
    [{ model_type: 'qwen3_5_text', full_attention_interval: 5 }],
    [{ model_type: 'qwen3_5_text', full_attention_interval: 0 }],
    [{ model_type: 'qwen3_5_text', linear_num_key_heads: 5 }],
    [{ model_type: 'qwen3_5_text', linear_num_value_heads: 0 }],
    [{ model_type: 'qwen3_5_text', linear_num_value_heads: 2 ** 30 }],
    [{ model_type: 'qwen3_5_text', linear_key_head_dim: '128' }],
    [{ model_type: 'qwen3_5_text', linear_conv_kernel_dim: 1 }],
    [{ model_type: 'qwen3_5_text', hidden_act: 'gelu_pytorch_tanh' }],
    [{ model_type: 'qwen3_5_text', partial_rotary_factor: 1.25 }],
    [{ model_type: 'granitemoehybrid' }],
    [{ model_type: 'granitemoehybrid', num_local_experts: 64 }],
    [{ ...granite4, layer_types: undefined }],
    [{ ...granite4, layer_types: ['mamba', 'conv', 'mamba', 'attention'] }],
    [{ ...granite4, shared_intermediate_size: undefined }],
    [{ ...granite4, mamba_n_groups: 3 }],
    [{ ...granite4, mamba_d_head: 24 }],
    [{ ...granite4, mamba_n_heads: 7, mamba_d_head: 'auto' }],
    [{ ...granite4, mamba_d_state: 2 ** 30 }],
    [{ ...granite4, mamba_conv_bias: 1 }],
    [{ ...granite4, time_step_limit: [1, 0.5] }],
    [{ ...granite4, position_embedding_type: 'alibi' }],
    [{ ...granite4, hidden_act: 'gelu_pytorch_tanh' }],
    [{ model_type: 'qwen3_5' }],
    [{ model_type: 'qwen3_5', text_config: 'qwen3_5_text' }],
    [{ model_type: 'qwen3_5', text_config: { model_type: 'qwen3' } }],
    [{ model_type: 'qwen3_5', text_config: { hidden_size: 0 } }],
    [{ model_type: 'qwen3_5', text_config: {}, quantization_config: { bits: 4 } }],
    [
      {
        model_type: 'qwen3_5_moe',
        text_config: { shared_expert_intermediate_size: 0, ...good(), model_type: undefined },
      },
    ],
    [{ model_type: 'qwen3_5_vision', depth: 27 }],
    [{ model_type: 'lfm3', use_attention_gate: 'yes' }],
    [{ model_type: 'lfm3', layer_types: ['conv', 'linear_attention', 'conv', 'full_attention'] }],
    [{ model_type: 'mistral3', text_config: { model_type: 'mistral4' } }],
    [{ model_type: 'ministral3', rope_parameters: { rope_theta: 1e4, llama_4_scaling_beta: 0.1 } }],
    [{ quantization_config: { quant_method: 'awq', bits: 4 } }],
    [{ rope_parameters: { rope_type: 'yarn', factor: -1, original_max_position_embeddings: 64 } }],
    [{ num_hidden_layers: 2 ** 30 }],
    [{ head_dim: 2 ** 30 }],
    [{ hidden_act: 'gelu' }],
    [{ quantization_config: { bits: 4 } }],
    [{ tie_word_embeddings: 1 }],
    [{ eos_token_id: 512 }],
    [{ eos_token_id: [1, -1] }],
    [{ vocab_size: 2 ** 40 }],
  ])('refuses %j', (change) => {
    expect(() =>
      parseConfig(typeof change === 'object' && change !== null ? { ...good(), ...change } : change, 'config.json'),
    ).toThrowErrorMatchingSnapshot();
  });
});

describe('checkpointWeights', () => {
  const config: ModelConfig = {
    architecture: 'llama',
    layers: 1,
    mixers: onlyAttention(1, { kvHeads: 1, headDim: 2 }),
    queryHeads: 2,
    hidden: 4,
    ffn: 3,
    vocab: 5,
    ropes: [{ theta: 1e4, rotary: 2 }],
    attention: { scale: 2 ** -0.5, windows: [] },
    biases: { qkv: false, output: false, ffn: false },
    activation: 'silu',
    embeddingScale: 1,
    normEps: 1e-5,
    maxPositions: 8,
    tied: false,
    eosIds: [],
  };
  let next = 0;
  const tensor = (...shape: number[]): TensorBytes => ({
    dtype: 'F32',
    shape,
    bytes: f32Bytes(Array.from({ length: shape.reduce((a, b) => a * b, 1) }, () => next++)),
  });
  const layer = 'model.layers.0';
  const all = (): Record<string, TensorBytes> => {
    next = 0;
    return {
      'model.embed_tokens.weight': tensor(5, 4),
      [`${layer}.self_attn.q_proj.weight`]: tensor(4, 4),
      [`${layer}.self_attn.k_proj.weight`]: tensor(2, 4),
      [`${layer}.self_attn.v_proj.weight`]: tensor(2, 4),
      [`${layer}.self_attn.o_proj.weight`]: tensor(4, 4),
      [`${layer}.mlp.gate_proj.weight`]: tensor(3, 4),
      [`${layer}.mlp.up_proj.weight`]: tensor(3, 4),
      [`${layer}.mlp.down_proj.weight`]: tensor(4, 3),
      [`${layer}.input_layernorm.weight`]: tensor(4),
      [`${layer}.post_attention_layernorm.weight`]: tensor(4),
      'model.norm.weight': tensor(4),
      'lm_head.weight': tensor(5, 4),
    };
  };
  const open = async (tensors: Record<string, TensorBytes>, changed: Partial<ModelConfig> = {}): Promise<Weights> =>
    checkpointWeights(await readSafetensors(bytesSource(writeSafetensors(tensors), 'w')), { ...config, ...changed });
  const count = (from: number, to: number): Float32Array =>
    Float32Array.from({ length: to - from }, (_, i) => from + i);

  test('stacks q|k|v and gate|up as they are stored; the head is the embedding when tied', async () => {
    const weights = await open(all()),
      { qkv, norm } = await weights.project(0),
      { output, gateUp, down } = await weights.finish(0);
    expect([qkv, output, gateUp!, down!, await weights.head(), await weights.embed()].map(dense)).toEqual([
      count(20, 52),
      count(52, 68),
      count(68, 92),
      count(92, 104),
      count(116, 136),
      count(0, 20),
    ]);
    expect([norm, (await weights.finish(0)).norm, await weights.norm()]).toEqual([
      count(104, 108),
      count(108, 112),
      count(112, 116),
    ]);
    expect([qkv, gateUp!].map(({ parts }) => parts.map(({ rows }) => rows))).toEqual([
      [4, 2, 2],
      [3, 3],
    ]);
    expect(dense(await (await open(all(), { tied: true })).head())).toEqual(count(0, 20));
  });

  test.each<[string, (tensors: Record<string, TensorBytes>) => unknown, Partial<ModelConfig>]>([
    ['a missing tensor', (t) => delete t[`${layer}.mlp.up_proj.weight`], {}],
    ['a missing head', (t) => delete t['lm_head.weight'], {}],
    ['another shape', (t) => (t[`${layer}.self_attn.k_proj.weight`] = tensor(4, 2)), {}],
    ['a bias missing', () => undefined, { biases: { qkv: true, output: false, ffn: false } }],
    ['a bias', (t) => (t[`${layer}.self_attn.k_proj.bias`] = tensor(2)), {}],
    ['a layer too many', (t) => (t['model.layers.1.input_layernorm.weight'] = tensor(4)), {}],
    ['a layer too few', () => undefined, { layers: 2, mixers: onlyAttention(2, { kvHeads: 1, headDim: 2 }) }],
    [
      'a number that is not finite',
      (t) => (t['model.norm.weight'] = { dtype: 'F32', shape: [4], bytes: f32Bytes([1, 2, NaN, 4]) }),
      {},
    ],
  ])('refuses %s', async (_, change, changed) => {
    const tensors = all();
    change(tensors);
    await expect(open(tensors, changed).then((weights) => weights.norm())).rejects.toThrowErrorMatchingSnapshot();
  });
});

describe('loadModel', () => {
  let folder: string;
  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), 'kv-model-'));
  });
  afterAll(() => rmSync(folder, { recursive: true }));
  const named = async (promise: Promise<unknown>): Promise<string> =>
    promise.then(
      () => 'loaded',
      (error: Error) => error.message.replaceAll(folder, 'FOLDER'),
    );

  test('says what it expected: no such folder, a missing or broken file, a tokenizer of another model', async () => {
    expect(await named(loadModel(join(folder, 'nowhere')))).toMatchInlineSnapshot(
      `"model: expected 'embedded', a .gguf file or a folder with config.json, model.safetensors and tokenizer.json, got "FOLDER/nowhere""`,
    );
    expect(await named(loadModel(folder))).toMatchInlineSnapshot(`"FOLDER/config.json: cannot be read (ENOENT)"`);
    for (const file of ['config.json', 'tokenizer.json'])
      cpSync(reference(`data/goldens/llama/${file}`), join(folder, file));
    expect(await named(loadModel(folder))).toMatchInlineSnapshot(
      `"FOLDER: expected model.safetensors or model.safetensors.index.json, got neither"`,
    );
    writeFileSync(
      join(folder, 'model.safetensors'),
      readFileSync(reference('data/goldens/llama/model.safetensors')).subarray(0, 5000),
    );
    expect(await named(loadModel(folder))).toMatchInlineSnapshot(
      `"FOLDER/model.safetensors "model.embed_tokens.weight": data_offsets must end within the 1072 bytes of data, got 131072: the file is cut"`,
    );
    writeFileSync(join(folder, 'tokenizer.json'), '{"model": ');
    expect(await named(loadModel(folder))).toMatchInlineSnapshot(
      `"FOLDER/tokenizer.json: expected JSON, got text that ends too early"`,
    );
    cpSync(reference('data/models/retriever-1.3m/tokenizer.json'), join(folder, 'tokenizer.json'), { force: true });
    expect(await named(loadModel(folder))).toMatchInlineSnapshot(
      `"FOLDER: tokenizer.json must have at most vocab_size (512) ids without its added tokens, got 1024"`,
    );
  });

  test('added tokens beyond the vocabulary are ordinary text', async () => {
    const own = join(folder, 'padded'),
      from = reference('data/goldens/llama');
    cpSync(from, own, { recursive: true });
    const json = referenceJson<{ added_tokens: unknown[]; model: { vocab: object } }>(
        'data/goldens/llama/tokenizer.json',
      ),
      pad = { id: 512, content: '[PAD]', special: true };
    const model = { ...json.model, vocab: { ...json.model.vocab, '[PAD]': 512 } };
    for (const vocabulary of [json.model, model]) {
      const padded = { ...json, added_tokens: [...json.added_tokens, pad], model: vocabulary };
      writeFileSync(join(own, 'tokenizer.json'), JSON.stringify(padded));
      const { tokenizer } = await loadModel(own);
      expect([tokenizer.size, tokenizer.specials.has('[PAD]')]).toEqual([512, false]);
      const text = 'a[PAD]b',
        { ids } = tokenizer.encode(text, { special: false });
      expect([Math.max(...ids) < 512, tokenizer.decode(ids)]).toEqual([true, text]);
    }
  });

  test('templates are read of chat_template.json, and of a file of their own for functions', async () => {
    const own = join(folder, 'templates'),
      write = (name: string, text: string): void => writeFileSync(join(own, name), text),
      said = async (options = {}): Promise<readonly string[]> => {
        const template = (await loadModel(own, options)).chatTemplate!()!,
          messages = [{ role: 'user', content: 'x' }];
        return [template(messages), template(messages, { tools: [{}] })];
      };
    cpSync(reference('data/goldens/llama'), own, { recursive: true });
    write('chat_template.json', JSON.stringify({ chat_template: 'processor' }));
    expect(await said()).toEqual(['processor', 'processor']);
    write('chat_template.jinja', 'usual');
    expect(await said()).toEqual(['usual', 'usual']);
    mkdirSync(join(own, 'additional_chat_templates'));
    write('additional_chat_templates/tool_use.jinja', 'calls');
    expect(await said()).toEqual(['usual', 'calls']);
    expect(await said({ chatTemplate: 'given' })).toEqual(['given', 'given']);
  });

  test('generation_config.json adds tokens that end an answer, and leaves the fingerprint', async () => {
    const own = join(folder, 'generation'),
      says = (json: unknown): void => writeFileSync(join(own, 'generation_config.json'), JSON.stringify(json));
    cpSync(reference('data/goldens/llama'), own, { recursive: true });
    rmSync(join(own, 'generation_config.json'), { force: true });
    const before = await loadModel(own),
      { eosIds } = before.config;
    for (const [value, more] of [
      [
        [...eosIds, 7, 9],
        [7, 9],
      ],
      [8, [8]],
      [[512, 9], [9]], // the vocabulary has 512
      [null, []],
    ] as const) {
      says({ eos_token_id: value });
      const { config, fingerprint } = await loadModel(own);
      expect([config.eosIds, fingerprint]).toEqual([[...eosIds, ...more], before.fingerprint]);
    }
    for (const value of [-1, 1.5, 'x', ['x'], {}, [[1]]]) {
      says({ eos_token_id: value });
      expect(await named(loadModel(own))).toMatch(
        /^FOLDER\/generation\/generation_config.json: eos_token_id must be a token id or a list of them, got \S+$/,
      );
    }
    says([]);
    expect(await named(loadModel(own))).toContain('generation_config.json: ');
  });

  test('a folder that names no end has that of tokenizer_config.json, or a special one of the class', async () => {
    const own = join(folder, 'endless'),
      write = (file: string, json: unknown): void => writeFileSync(join(own, file), JSON.stringify(json));
    cpSync(reference('data/goldens/llama'), own, { recursive: true });
    rmSync(join(own, 'generation_config.json'), { force: true });
    const { eos_token_id: _, ...lacking } = good(),
      { added_tokens: added, ...tokenizer } = referenceJson<{
        readonly added_tokens: readonly { readonly id: number }[];
      }>('data/goldens/llama/tokenizer.json');
    const endsWith = async (names: object, special: boolean, config: object = {}): Promise<readonly number[]> => {
      write('config.json', { ...lacking, ...config });
      write('tokenizer_config.json', names);
      write('tokenizer.json', {
        ...tokenizer,
        added_tokens: added.filter(({ id }) => special || id !== 2),
      });
      return (await loadModel(own)).config.eosIds;
    };
    expect(await endsWith({}, true)).toEqual([2]);
    expect(await endsWith({}, false)).toEqual([]); // a word like others
    expect(await endsWith({}, true, { eos_token_id: null })).toEqual([]); // it says that it has none
    expect(await endsWith({ eos_token: '<|im_start|>' }, true)).toEqual([1]);
    expect(await endsWith({ eos_token: { content: '<|im_start|>' } }, true)).toEqual([1]);
    expect(await endsWith({ eos_token: '<|im_start|>' }, true, { eos_token_id: 0 })).toEqual([0]);
    write('generation_config.json', { eos_token_id: 3 });
    expect(await endsWith({ eos_token: '<|im_start|>' }, true)).toEqual([3]);
  });

  test.each([{}, { temperature: 3, seed: 2 }])(
    'suppress_tokens of generation_config.json never come, and leave the fingerprint: %j',
    async (options) => {
      const own = join(folder, 'suppressed'),
        says = (json: unknown): void => writeFileSync(join(own, 'generation_config.json'), JSON.stringify(json));
      cpSync(reference('data/goldens/llama'), own, { recursive: true });
      says({});
      const ask = { ids: [1, 2, 3], maxNewTokens: 12, ...options },
        before = await loadModel(own),
        { tokens } = await generate(before, ask);
      says({ suppress_tokens: [-1, 512, ...tokens] });
      const model = await loadModel(own),
        after = await generate(model, ask);
      expect([model.config.bannedIds, model.fingerprint]).toEqual([tokens, before.fingerprint]);
      expect(after.tokens).toHaveLength(12);
      expect(after.tokens.filter((token) => tokens.includes(token))).toEqual([]);
      for (const value of [-2, 1.5, 'x', {}, [[1]]]) {
        says({ suppress_tokens: value });
        expect(await named(loadModel(own))).toMatch(
          /generation_config.json: suppress_tokens must be a token id or a list of them, got \S+$/,
        );
      }
    },
  );

  test('a URL serves as well as a folder', async () => {
    const server = createServer((request, response) => {
      const path = join(reference('data/goldens/llama'), request.url?.split('/').at(-1) ?? '');
      if (request.url?.startsWith('/model/') === true && existsSync(path)) response.end(readFileSync(path));
      else response.writeHead(404).end();
    });
    await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening));
    const base = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    expect((await loadModel(`${base}/model`)).config.layers).toBe(4);
    expect((await named(loadModel(`${base}/other/`))).replace(base, 'BASE')).toMatchInlineSnapshot(
      `"BASE/other/config.json: download failed: HTTP status 404"`,
    );
    await new Promise((closed) => server.close(closed));
    expect(await named(loadModel(base))).toContain('/config.json: download failed: ');
  });

  test('a server is asked for nothing but the files that are named, which one that answers for every name needs', async () => {
    const asked: string[] = [];
    const server = createServer(({ method, url }, response) => {
      asked.push(`${method} ${url}`);
      const path = join(reference('data/goldens/llama'), url?.split('/').at(-1) ?? '');
      response.end(existsSync(path) ? readFileSync(path) : '<!doctype html>');
    });
    await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening));
    const base = `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
      files = ['config.json', 'tokenizer.json', 'model.safetensors'];
    const model = await loadModel(base, { files });
    expect([model.config.layers, model.chatTemplate?.()]).toEqual([4, undefined]);
    expect(asked).toEqual(files.map((file) => `GET /${file}`));
    expect(await named(loadModel(base, { files: files.slice(0, 2) }))).toContain(
      'expected model.safetensors or model.safetensors.index.json, got neither',
    );
    await new Promise((closed) => server.close(closed));
  });

  test("'embedded' is the folder in KV_EMBEDDED_DIR, or the package", async () => {
    const before = process.env.KV_EMBEDDED_DIR;
    process.env.KV_EMBEDDED_DIR = reference('data/goldens/llama');
    const model = await loadModel('embedded');
    expect([model.name, model.config.layers]).toEqual(['embedded', 4]);
    delete process.env.KV_EMBEDDED_DIR;
    const embedded = await loadModel('embedded');
    expect(embedded.tokenizer.size).toBe(embedded.config.vocab);
    if (before !== undefined) process.env.KV_EMBEDDED_DIR = before;
  });
});

test.each(['checkpoints', 'engine', 'engine-onnx', 'engine-wasm', 'models'])(
  'no source of %s imports a module of Node, so that a browser can load all of them',
  (name) => {
    const src = new URL(`../../${name}/src/`, import.meta.url);
    for (const file of readdirSync(src, { recursive: true, encoding: 'utf8' }).filter((path) => path.endsWith('.ts')))
      expect(readFileSync(new URL(file, src), 'utf8').replaceAll(/typeof import\('node:/g, ''), file).not.toMatch(
        /(?:from|import\() ?['"]node:/,
      );
  },
);
