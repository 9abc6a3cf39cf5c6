import { KvError } from '@kv/core';
import { ggufChatTemplates } from '../chat/chat-template.ts';
import { architectures, type ArchitectureName } from '../config/architectures.ts';
import { ggufEnds, ggufTokenizerJson } from '../tokenizer/gguf.ts';
import type { ModelConfig } from '../config/config.ts';
import { expertsJson } from '../config/experts.ts';
import { floatJson, layerTypes, slotHeads, type Mixer, type StateMixer } from '../config/mixers.ts';
import type { JsonFields } from '../read/fields.ts';
import type { RopeConfig } from '../config/rope-config.ts';

/** Text files of a hub folder that say how its model is used. */
export const HUB_FILES = [
  'config.json',
  'generation_config.json',
  'tokenizer.json',
  'tokenizer_config.json',
  'special_tokens_map.json',
  'chat_template.jinja',
  'chat_template.json',
  'additional_chat_templates/tool_use.jinja',
] as const;

type Files = readonly (readonly [name: (typeof HUB_FILES)[number], text: string])[];

const json = (value: unknown): string => `${JSON.stringify(value, null, 2)}\n`;

/**
 * Returns the files that transformers.js requests in addition to config.json and tokenizer.json,
 * derived from the configuration.
 * @param text returns a token's text
 */
export const wantedFiles = (
  { bosId, eosIds, maxPositions }: ModelConfig,
  text: (id: number) => string,
  more: JsonFields = {},
): Files => {
  // ids with which a model pads its vocabulary have no text
  const named = (field: string, id: number | undefined): JsonFields =>
    id === undefined || text(id) === '' ? {} : { [field]: text(id) };
  return [
    ['generation_config.json', json({ ...(bosId !== undefined && { bos_token_id: bosId }), eos_token_id: eosIds })],
    [
      'tokenizer_config.json',
      json({
        tokenizer_class: 'PreTrainedTokenizerFast',
        ...named('bos_token', bosId),
        ...named('eos_token', eosIds[0]),
        model_max_length: maxPositions,
        clean_up_tokenization_spaces: false,
        ...more,
      }),
    ],
  ];
};

/**
 * Returns the text files that are equivalent to a GGUF file's metadata.
 * @throws KvError for a vocabulary that cannot be read
 */
export function ggufHubFiles(
  config: ModelConfig,
  metadata: ReadonlyMap<string, unknown>,
  where: string,
): ReadonlyMap<string, string> {
  const { usual, toolUse } = ggufChatTemplates(metadata, where) ?? {},
    tokens = metadata.get('tokenizer.ggml.tokens') as readonly string[],
    ended = { ...config, eosIds: [...new Set([...config.eosIds, ...ggufEnds(metadata)])] };
  return new Map([
    ['config.json', json(configJson(config))],
    ['tokenizer.json', json(ggufTokenizerJson(metadata, where))],
    ...wantedFiles(
      ended,
      (id) => tokens[id],
      usual === undefined ? {} : { chat_template: chatTemplateJson(usual, toolUse) },
    ),
  ]);
}

/** Returns the field `chat_template` of a tokenizer_config.json. */
const chatTemplateJson = (usual: string, toolUse: string | undefined): string | readonly JsonFields[] =>
  toolUse === undefined
    ? usual
    : [
        { name: 'default', template: usual },
        { name: 'tool_use', template: toolUse },
      ];

const CLASSES: Readonly<Record<ArchitectureName, string>> = {
  llama: 'LlamaForCausalLM',
  mistral: 'MistralForCausalLM',
  ministral3: 'Ministral3ForCausalLM',
  qwen2: 'Qwen2ForCausalLM',
  qwen3: 'Qwen3ForCausalLM',
  phi3: 'Phi3ForCausalLM',
  gemma2: 'Gemma2ForCausalLM',
  gemma3_text: 'Gemma3ForCausalLM',
  gemma4_text: 'Gemma4ForCausalLM',
  smollm3: 'SmolLM3ForCausalLM',
  olmo2: 'Olmo2ForCausalLM',
  olmo3: 'Olmo3ForCausalLM',
  granite: 'GraniteForCausalLM',
  granite_swa: 'GraniteSWAForCausalLM',
  granitemoe: 'GraniteMoeForCausalLM',
  granitemoehybrid: 'GraniteMoeHybridForCausalLM',
  lfm2: 'Lfm2ForCausalLM',
  lfm3: 'Lfm3ForCausalLM',
  qwen3_5_text: 'Qwen3_5ForCausalLM',
  gpt_oss: 'GptOssForCausalLM',
  qwen3_moe: 'Qwen3MoeForCausalLM',
  qwen3_5_moe_text: 'Qwen3_5MoeForCausalLM',
  lfm2_moe: 'Lfm2MoeForCausalLM',
};

/**
 * Returns a config.json that `parseConfig` reads back as a model that computes the same. A Llama with a sliding window
 * becomes a Mistral, and YaRN and Llama's scaling of RoPE become LongRoPE with their divisors.
 * @throws KvError for a rotation that no config.json says
 */
export function configJson(config: ModelConfig): JsonFields {
  const { attention, biases, ropes } = config,
    { windows } = attention,
    window = windows.find(Number.isFinite),
    name = config.architecture === 'llama' && window !== undefined ? 'mistral' : config.architecture,
    kind = architectures[name];
  const own = (l: number): boolean => kind.localTheta !== undefined && Number.isFinite(windows[l]),
    rope = ropes.find(({ rotary }, l) => rotary > 0 && !own(l)) ?? ropes[0],
    local = ropes.find((_, l) => own(l)),
    [{ kvHeads, headDim }] = slotHeads(config);
  return {
    architectures: [CLASSES[name]],
    model_type: name,
    hidden_size: config.hidden,
    intermediate_size: config.ffn,
    num_hidden_layers: config.layers,
    num_attention_heads: config.queryHeads,
    vocab_size: config.vocab,
    max_position_embeddings: config.maxPositions,
    [kind.fields.normEps[0]]: config.normEps,
    [kind.activation === 'gelu' ? 'hidden_activation' : 'hidden_act']: { silu: 'silu', gelu: 'gelu_pytorch_tanh' }[
      config.activation
    ],
    tie_word_embeddings: config.tied,
    attention_bias: biases.output || (kind.biases.qkv !== true && biases.qkv),
    mlp_bias: biases.ffn,
    ...(config.bosId !== undefined && { bos_token_id: config.bosId }),
    eos_token_id: config.eosIds,
    ...(kind.byLayer
      ? layersJson(config, rope, local)
      : {
          num_key_value_heads: kvHeads,
          head_dim: headDim,
          // a file that says nothing of a scaling may have that of the class
          ...(kind.defaults.rope && { rope_scaling: { rope_type: 'default' } }),
          ...scaledJson(ropeJson(rope, config.maxPositions), attention),
        }),
    ...(local && !kind.byLayer && { rope_local_base_freq: local.theta }),
    ...(kind.unturned !== undefined && { no_rope_layers: ropes.map(({ rotary }) => (rotary > 0 ? 1 : 0)) }),
    ...(kind.listedThetas && { layer_rope_theta: ropes.map(({ theta, rotary }) => (rotary > 0 ? theta : 0)) }),
    ...(kind.namedPositions && { position_embedding_type: rope.rotary > 0 ? 'rope' : null }),
    ...(kind.partialRotary && { partial_rotary_factor: rope.rotary / headDim }),
    ...(kind.adjustedFfn && { block_auto_adjust_ff_dim: false }),
    ...(kind.mixer && mixersJson(config, kind.mixer)),
    ...expertsJson(kind.experts, config.experts),
    ...(kind.windows !== 'none' && { sliding_window: window ?? null }),
    ...(kind.windows !== 'none' &&
      kind.windows !== 'all' && {
        use_sliding_window: window !== undefined,
        layer_types: windows.map((w, l) => typeOf(config.mixers[l], w)),
      }),
    ...(kind.norms === 'asked' && { use_sandwich_norm: config.norms === 'around' }),
    ...(kind.outputGate === 'head' && { use_attention_gate: attention.outputGate === 'head' }),
    ...(kind.scale === 'query_pre_attn_scalar' && { query_pre_attn_scalar: attention.scale ** -2 }),
    ...(kind.scale === 'attention_multiplier' && { attention_multiplier: attention.scale }),
    ...(kind.multipliers && {
      embedding_multiplier: config.embeddingScale,
      residual_multiplier: config.residualScale ?? 1,
      logits_scaling: 1 / (config.logitScale ?? 1),
    }),
    ...(kind.softcaps && {
      attn_logit_softcapping: attention.softcap ?? null,
      final_logit_softcapping: config.finalSoftcap ?? null,
    }),
  };
}

/** @param attention what a layer with attention and without a window is called */
const typeOf = ({ kind }: Mixer, window: number, attention = 'full_attention'): string =>
  kind !== 'attention' ? layerTypes[kind].state[0] : window < Infinity ? 'sliding_attention' : attention;

/** Returns the fields of layers that differ. */
function layersJson(
  { mixers, attention: { windows }, ffns, perLayer = 0, vocab, maxPositions }: ModelConfig,
  rope: RopeConfig,
  local: RopeConfig | undefined,
): JsonFields {
  const all = mixers.filter((mixer) => mixer.kind === 'attention'),
    usual = all[Math.max(0, windows.findIndex(Number.isFinite))];
  return {
    head_dim: usual.headDim,
    num_key_value_heads: usual.kvHeads,
    per_layer_config: Object.fromEntries(
      all.flatMap(({ kvHeads, headDim }, l) =>
        kvHeads === usual.kvHeads && headDim === usual.headDim
          ? []
          : [[l, { head_dim: headDim, num_key_value_heads: kvHeads }]],
      ),
    ),
    num_kv_shared_layers: all.filter(({ slotsOf }) => slotsOf !== undefined).length,
    attention_k_eq_v: all.some(({ valuesOfKeys }) => valuesOfKeys === true),
    use_double_wide_mlp: ffns !== undefined,
    hidden_size_per_layer_input: perLayer,
    vocab_size_per_layer_input: vocab,
    rope_parameters: {
      full_attention: partJson(rope, maxPositions),
      ...(local && { sliding_attention: { rope_type: 'default', rope_theta: local.theta } }),
    },
  };
}

/** Returns a rotation as one of several in a file. */
function partJson(rope: RopeConfig, maxPositions: number): JsonFields {
  const { rope_scaling: scaling, rope_parameters: own, ...rest } = ropeJson(rope, maxPositions);
  return { rope_type: 'default', ...rest, ...(scaling as JsonFields | undefined), ...(own as JsonFields | undefined) };
}

function mixersJson({ mixers, hidden, ffn }: ModelConfig, kind: StateMixer['kind']): JsonFields {
  const other = mixers.find((mixer) => mixer.kind !== 'attention');
  return {
    layer_types: mixers.map((mixer) => typeOf(mixer, Infinity, layerTypes[kind].attention[0])),
    ...(kind === 'stateSpace' && { shared_intermediate_size: ffn, num_local_experts: 0 }),
    ...(other?.kind === 'shortConvolution' && { conv_L_cache: other.kernel, conv_bias: other.bias }),
    ...(other?.kind === 'gatedDelta' && {
      linear_num_key_heads: other.keyHeads,
      linear_num_value_heads: other.valueHeads,
      linear_key_head_dim: other.keyDim,
      linear_value_head_dim: other.valueDim,
      linear_conv_kernel_dim: other.kernel,
    }),
    ...(other?.kind === 'stateSpace' && {
      mamba_expand: (other.heads * other.headDim) / hidden,
      mamba_n_heads: other.heads,
      mamba_d_head: other.headDim,
      mamba_n_groups: other.groups,
      mamba_d_state: other.stateDim,
      mamba_d_conv: other.kernel,
      mamba_proj_bias: other.bias,
      mamba_conv_bias: other.convolutionBias,
      time_step_limit: other.timeStep.map(floatJson),
    }),
  };
}

/** Adds the scale of queries to the parameters of RoPE. */
const scaledJson = (rope: JsonFields, { queryScale }: ModelConfig['attention']): JsonFields =>
  queryScale === undefined
    ? rope
    : {
        ...rope,
        rope_scaling: {
          rope_type: 'default',
          ...(rope.rope_scaling as JsonFields | undefined),
          llama_4_scaling_beta: queryScale.by,
          original_max_position_embeddings: queryScale.every,
        },
      };

function ropeJson(rope: RopeConfig, maxPositions: number): JsonFields {
  const { theta, rotary, long, attentionFactor = 1 } = rope;
  if (rope.divisors === undefined && attentionFactor === 1) return { rope_theta: theta };
  const { divisors = new Array<number>(rotary / 2).fill(1) } = rope,
    turning = divisors.filter((d) => d < Infinity);
  if (turning.length < divisors.length && attentionFactor !== 1)
    throw new KvError(
      'config.json',
      `expected a rotation of all pairs where attention has a factor (${attentionFactor}), got ${turning.length} of ${divisors.length} pairs`,
    );
  if (turning.length < divisors.length)
    return {
      rope_theta: theta,
      rope_scaling: {
        ...{ rope_type: 'proportional', factor: turning[0] ?? 1 },
        partial_rotary_factor: (turning.length + 0.5) / divisors.length, // of which the number of pairs is the whole part
      },
    };
  if (long === undefined && attentionFactor === 1 && divisors.every((d) => d === divisors[0]))
    return { rope_theta: theta, rope_scaling: { rope_type: 'linear', factor: divisors[0] } };
  return {
    rope_theta: theta,
    original_max_position_embeddings: long?.beyond ?? maxPositions,
    rope_scaling: {
      rope_type: 'longrope',
      short_factor: divisors,
      long_factor: long?.divisors ?? divisors,
      attention_factor: attentionFactor,
    },
  };
}
