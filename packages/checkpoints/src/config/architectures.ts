import type { JsonFields } from '../read/fields.ts';
import type { ExpertsKind } from './experts.ts';

/** How one kind of decoder differs from the others, as data: this is the complete list of differences. */
export interface Architecture {
  /** Its `general.architecture` in GGUF files; absent where llama.cpp has none. */
  readonly gguf?: string;
  /**
   * A key of its GGUF files, without the architecture's prefix, that is above 0 and tells it from another of the same `gguf`.
   */
  readonly ggufKey?: string;
  /** `model_type` of a config.json, of a model that also reads images, that holds the text model's in `text_config`. */
  readonly within?: string;
  /**
   * Another `model_type` of the same decoder, of a text model and of the whole, with fields that count where config.json
   * lacks them.
   */
  readonly alias?: { readonly text: string; readonly within: string; readonly absent: JsonFields };
  /**
   * Fields of config.json that count where it lacks them, as the class of transformers has them: sizes too of text models
   * within others, whose fields older versions write only where they differ from the class.
   */
  readonly absent?: JsonFields;
  /** Names of tensors: Llama's, or those of LFM2, LFM3, Qwen 3.5, Gemma 4, Granite's with experts or a state space, or gpt-oss. */
  readonly names: 'llama' | 'lfm2' | 'lfm3' | 'qwen3_5' | 'gemma4' | 'granitemoe' | 'gpt_oss';
  /** What some layers have instead of attention. */
  readonly mixer?: 'shortConvolution' | 'gatedDelta' | 'stateSpace';
  /** What `layer_types` would call a layer, where config.json has none; they repeat, but for the first layer. */
  readonly layerTypes?: { readonly first: string; readonly repeat: readonly string[] };
  /**
   * Whether what heads give is gated: every channel, by rows of the query product that follow those of each head, or all of a
   * head by one number, of a product of its own, where `use_attention_gate` is not false.
   */
  readonly outputGate: 'none' | 'channel' | 'head';
  /** Whether q, k, v and gate, up are each stored as one fused matrix. */
  readonly fused: boolean;
  /** Whether safetensors, and not GGUF files, store gate, up as one fused matrix. @defaultValue false */
  readonly fusedGate?: boolean;
  /** Normalisation of q and k before rotation: per head, or over all heads of a token together. */
  readonly qkNorm: 'none' | 'head' | 'projection';
  /** Whether values are normalised per head, without a gain. */
  readonly valueNorm: boolean;
  /**
   * Whether layers may differ in heads and widths, read the slots of earlier layers, and take inputs of their own; see
   * layers.ts.
   */
  readonly byLayer: boolean;
  /**
   * Where norms are: before attention and the feed-forward layer, after them (before the residual add), or both; `asked`: both,
   * unless `use_sandwich_norm` is false, and then before.
   */
  readonly norms: 'before' | 'after' | 'around' | 'asked';
  /** Whether Hugging Face checkpoints store gains as w of `1 + w`. GGUF files hold the sum. */
  readonly gainsFromOne: boolean;
  /** Whether embeddings are multiplied by sqrt(D). */
  readonly scaledEmbedding: boolean;
  /** Present if layers have routed experts. */
  readonly experts?: ExpertsKind;
  /** What scales scores: the head's width or a config field to the power -1/2, a config field as it is, or nothing. */
  readonly scale: 'one' | 'head' | 'query_pre_attn_scalar' | 'attention_multiplier';
  /** Whether queries are scaled by their position, where `llama_4_scaling_beta` of RoPE's parameters says by how much. */
  readonly queryScale: boolean;
  /** Whether `embedding_multiplier`, `residual_multiplier` and `logits_scaling` are read. */
  readonly multipliers: boolean;
  /** Whether every query head has a learned sink. */
  readonly learnedSinks: boolean;
  /** Present if scores and logits may be soft-capped, with the caps that apply where config.json gives none. */
  readonly softcaps?: { readonly scores?: number; readonly logits?: number };
  /** Fields of config.json whose names differ; of several that are present, the first counts. */
  readonly fields: Readonly<Record<'ffn' | 'normEps' | 'tied', readonly string[]>>;
  /** Whether `block_` fields change the width of the feed-forward layer. */
  readonly adjustedFfn: boolean;
  /** Activation of the feed-forward gate where config.json gives none. */
  readonly activation: 'silu' | 'gelu';
  /** Which products add a bias: always, never, or as the named field of config.json says. */
  readonly biases: { readonly qkv: Bias; readonly output: Bias; readonly ffn: Bias };
  /**
   * Layers with a sliding window: all; all but every n-th, the first of these being layer 0 or layer n - 1; or, only if
   * `use_sliding_window` is set, all (`asked`), those from `max_window_layers` on, or those without positions.
   */
  readonly windows:
    | 'none'
    | 'all'
    | 'asked'
    | 'from'
    | 'unturned'
    | { readonly every: number; readonly first?: boolean };
  /** Every n-th layer applies no rotation, unless `no_rope_layers` lists others. */
  readonly unturned?: number;
  /** Whether heads are rotated only where `position_embedding_type` is `rope`. @defaultValue false */
  readonly namedPositions?: boolean;
  /**
   * Whether `layer_rope_theta` may list each layer's RoPE base, 0 for a layer that rotates nothing; in GGUF files, which know
   * one base, `attention.rope_pattern` lists the layers that do.
   */
  readonly listedThetas: boolean;
  /** Whether config.json may call LongRoPE `yarn`, as old files do. @defaultValue false */
  readonly longAsYarn?: boolean;
  /** RoPE base of layers with a window, which then use no scaling, where a file gives none; `same`: that of the others. */
  readonly localTheta?: number | 'same';
  /** Whether a config may rotate only a leading part of each head. */
  readonly partialRotary: boolean;
  /** Whether RoPE's pairs are divided among the three positions of a part of an image; for text all three are equal. */
  readonly imagePositions: boolean;
  /** Token that ends a text where config.json does not name one, as in transformers. */
  readonly end: number | undefined;
  /** Whether GGUF files store the rows of q and k in interleaved-pair order. */
  readonly interleavedInGguf: boolean;
  /**
   * Meaning of an absent field of config.json, as in transformers. `headDim` defaults to hidden_size /
   * num_attention_heads, `theta` to 10,000, `rotary`, the part of a head that is rotated, to 1, `biased`, of fields that
   * name biases, to false.
   */
  readonly defaults: {
    readonly normEps: number;
    readonly maxPositions: number;
    readonly tied: boolean;
    readonly headDim?: number;
    readonly window?: number;
    readonly theta?: number;
    readonly rotary?: number;
    /** Tokens that a short convolution spans. @defaultValue 3 */
    readonly kernel?: number;
    /** `rope_parameters` of a config.json that has neither these nor `rope_scaling`. */
    readonly rope?: object;
    readonly biased?: boolean;
  };
}

/** The supported `model_type` values of config.json. */
export type ArchitectureName =
  | 'llama'
  | 'mistral'
  | 'ministral3'
  | 'qwen2'
  | 'qwen3'
  | 'phi3'
  | 'gemma2'
  | 'gemma3_text'
  | 'gemma4_text'
  | 'smollm3'
  | 'olmo2'
  | 'olmo3'
  | 'granite'
  | 'granite_swa'
  | 'granitemoe'
  | 'granitemoehybrid'
  | 'lfm2'
  | 'lfm3'
  | 'qwen3_5_text'
  | 'gpt_oss'
  | 'qwen3_moe'
  | 'qwen3_5_moe_text'
  | 'lfm2_moe';

type Bias = boolean | 'attention_bias' | 'mlp_bias';

const llama: Architecture = {
  gguf: 'llama',
  names: 'llama',
  outputGate: 'none',
  fused: false,
  qkNorm: 'none',
  valueNorm: false,
  byLayer: false,
  norms: 'before',
  gainsFromOne: false,
  scaledEmbedding: false,
  scale: 'head',
  queryScale: false,
  multipliers: false,
  learnedSinks: false,
  fields: { ffn: ['intermediate_size'], normEps: ['rms_norm_eps'], tied: ['tie_word_embeddings'] },
  adjustedFfn: false,
  activation: 'silu',
  biases: { qkv: 'attention_bias', output: 'attention_bias', ffn: 'mlp_bias' },
  windows: 'none',
  listedThetas: false,
  partialRotary: false,
  imagePositions: false,
  end: 2,
  interleavedInGguf: true,
  defaults: { normEps: 1e-6, maxPositions: 2048, tied: false },
};

const unbiased = { qkv: false, output: false, ffn: false } as const;

const gemma2: Architecture = {
  ...llama,
  gguf: 'gemma2',
  absent: { num_key_value_heads: 4 },
  norms: 'around',
  gainsFromOne: true,
  scaledEmbedding: true,
  scale: 'query_pre_attn_scalar',
  softcaps: { scores: 50, logits: 30 },
  activation: 'gelu',
  biases: { ...unbiased, qkv: 'attention_bias', output: 'attention_bias' },
  windows: { every: 2 },
  end: 1,
  interleavedInGguf: false,
  defaults: { normEps: 1e-6, maxPositions: 8192, tied: true, headDim: 256, window: 4096 },
};

const mistral: Architecture = {
  ...llama,
  within: 'mistral3',
  absent: {
    ...{ vocab_size: 32_000, hidden_size: 4096, intermediate_size: 14_336 },
    ...{ num_hidden_layers: 32, num_attention_heads: 32, num_key_value_heads: 8 },
  },
  biases: unbiased,
  windows: 'all',
  defaults: { normEps: 1e-6, maxPositions: 131_072, tied: false, window: 4096 },
};

const olmo2: Architecture = {
  ...llama,
  gguf: 'olmo2',
  qkNorm: 'projection',
  norms: 'after',
  biases: { ...unbiased, qkv: 'attention_bias', output: 'attention_bias' },
  end: 50_279,
  interleavedInGguf: false,
  defaults: { normEps: 1e-5, maxPositions: 2048, tied: false },
};

const granite: Architecture = {
  ...llama,
  gguf: 'granite',
  scale: 'attention_multiplier',
  multipliers: true,
};

const qwen3: Architecture = {
  ...llama,
  gguf: 'qwen3',
  absent: { num_key_value_heads: 32 },
  qkNorm: 'head',
  biases: { ...unbiased, qkv: 'attention_bias', output: 'attention_bias' },
  windows: 'from',
  end: undefined,
  interleavedInGguf: false,
  defaults: { normEps: 1e-6, maxPositions: 32_768, tied: false, headDim: 128, window: 4096 },
};

const lfm2: Architecture = {
  ...llama,
  gguf: 'lfm2',
  absent: { num_key_value_heads: 8 },
  names: 'lfm2',
  mixer: 'shortConvolution',
  qkNorm: 'head',
  fields: {
    ffn: ['block_ff_dim', 'intermediate_size'],
    normEps: ['norm_eps'],
    tied: ['tie_embedding', 'tie_word_embeddings'],
  },
  adjustedFfn: true,
  biases: unbiased,
  interleavedInGguf: false,
  defaults: { normEps: 1e-5, maxPositions: 128_000, tied: true, theta: 1e6 },
};

const { gguf: _, ...lfm2Alone } = lfm2;

const qwen35: Architecture = {
  ...llama,
  gguf: 'qwen35',
  within: 'qwen3_5',
  absent: {
    ...{ vocab_size: 248_320, hidden_size: 4096, intermediate_size: 12_288 },
    ...{ num_hidden_layers: 32, num_attention_heads: 16, num_key_value_heads: 4 },
  },
  names: 'qwen3_5',
  mixer: 'gatedDelta',
  outputGate: 'channel',
  qkNorm: 'head',
  gainsFromOne: true,
  biases: { ...unbiased, qkv: 'attention_bias', output: 'attention_bias' },
  partialRotary: true,
  imagePositions: true,
  end: undefined,
  interleavedInGguf: false,
  defaults: { normEps: 1e-6, maxPositions: 32_768, tied: false, headDim: 256, rotary: 0.25 },
};

/** Experts of Qwen 3. */
const qwenExperts: ExpertsKind = {
  scores: 'softmax',
  normalised: { absent: false },
  selectionBias: false,
  bias: false,
  clamped: false,
  active: 'num_experts_per_tok',
  width: 'moe_intermediate_size',
  dense: 'listed',
  defaults: { count: 128, active: 8, width: 768 },
};

/** Experts of Granite. */
const graniteExperts: ExpertsKind = {
  ...qwenExperts,
  normalised: 'always',
  shared: { width: 'shared_intermediate_size', gated: false },
  width: 'intermediate_size',
  dense: 'none',
  defaults: { count: 8, active: 2 },
};

/** The supported architectures by `model_type` of config.json, each with its differences from Llama. */
export const architectures: Readonly<Record<ArchitectureName, Architecture>> = {
  llama,
  mistral,
  ministral3: {
    ...mistral,
    gguf: 'mistral3',
    absent: { ...mistral.absent, vocab_size: 131_072, num_hidden_layers: 34 },
    queryScale: true,
    defaults: {
      ...{ normEps: 1e-5, maxPositions: 262_144, tied: false, headDim: 128 },
      rope: {
        ...{ rope_type: 'yarn', rope_theta: 1e6, factor: 16, original_max_position_embeddings: 16_384 },
        ...{ mscale: 1, mscale_all_dim: 1, llama_4_scaling_beta: 0.1 },
      },
    },
  },
  qwen2: {
    ...llama,
    gguf: 'qwen2',
    absent: { num_key_value_heads: 32 },
    biases: { ...unbiased, qkv: true },
    windows: 'from',
    end: undefined,
    interleavedInGguf: false,
    defaults: { normEps: 1e-6, maxPositions: 32_768, tied: false, window: 4096 },
  },
  qwen3,
  phi3: {
    ...llama,
    gguf: 'phi3',
    absent: { original_max_position_embeddings: 4096 },
    fused: true,
    biases: unbiased,
    windows: 'all',
    partialRotary: true,
    longAsYarn: true,
    end: 32_000,
    interleavedInGguf: false,
    defaults: { normEps: 1e-5, maxPositions: 4096, tied: false },
  },
  gemma2,
  gemma3_text: {
    ...gemma2,
    gguf: 'gemma3',
    within: 'gemma3',
    absent: {
      ...{ vocab_size: 262_208, hidden_size: 2304, intermediate_size: 9216 },
      ...{ num_hidden_layers: 26, num_attention_heads: 8, num_key_value_heads: 4 },
    },
    qkNorm: 'head',
    softcaps: {},
    windows: { every: 6 },
    localTheta: 10_000,
    defaults: { normEps: 1e-6, maxPositions: 131_072, tied: true, headDim: 256, window: 4096, theta: 1e6 },
  },
  gemma4_text: {
    ...gemma2,
    gguf: 'gemma4',
    within: 'gemma4',
    absent: {
      ...{ vocab_size: 262_144, hidden_size: 2304, intermediate_size: 9216 },
      ...{ num_hidden_layers: 30, num_attention_heads: 8, num_key_value_heads: 4 },
      vocab_size_per_layer_input: 262_144,
    },
    alias: {
      text: 'gemma4_unified_text',
      within: 'gemma4_unified',
      absent: { max_position_embeddings: 262_144, sliding_window: 1024, hidden_size_per_layer_input: 0 },
    },
    names: 'gemma4',
    qkNorm: 'head',
    valueNorm: true,
    byLayer: true,
    gainsFromOne: false,
    scale: 'one',
    softcaps: {},
    experts: {
      ...qwenExperts,
      normalised: 'always',
      asked: 'enable_moe_block',
      shared: { width: 'intermediate_size', gated: false },
      ownNorms: true,
      active: 'top_k_experts',
      dense: 'none',
      defaults: {},
    },
    windows: { every: 6 },
    localTheta: 10_000,
    defaults: {
      ...{ normEps: 1e-6, maxPositions: 131_072, tied: true, headDim: 256, window: 512, theta: 1e6 },
      rope: {
        sliding_attention: { rope_type: 'default', rope_theta: 10_000 },
        full_attention: { rope_type: 'proportional', partial_rotary_factor: 0.25, rope_theta: 1e6 },
      },
    },
  },
  smollm3: {
    ...llama,
    gguf: 'smollm3',
    absent: { num_key_value_heads: 4 },
    windows: 'unturned',
    unturned: 4,
    end: 128_001,
    defaults: { normEps: 1e-6, maxPositions: 32_768, tied: true, theta: 2e6 },
  },
  olmo2,
  olmo3: {
    ...olmo2,
    ggufKey: 'attention.sliding_window',
    windows: { every: 4 },
    localTheta: 'same',
    defaults: { normEps: 1e-5, maxPositions: 2048, tied: false, window: 4096, theta: 5e5 },
  },
  granite,
  granite_swa: {
    ...granite,
    gguf: 'granite_swa',
    absent: { num_key_value_heads: 4 },
    learnedSinks: true,
    windows: { every: 4, first: true },
    listedThetas: true,
    end: 100_257,
    defaults: { normEps: 1e-5, maxPositions: 8192, tied: true, window: 128 },
  },
  granitemoe: {
    ...granite,
    gguf: 'granitemoe',
    names: 'granitemoe',
    fusedGate: true,
    experts: graniteExperts,
    fields: { ...llama.fields, ffn: ['shared_intermediate_size', 'intermediate_size'] },
    biases: { ...unbiased, qkv: 'attention_bias', output: 'attention_bias' },
  },
  granitemoehybrid: {
    ...granite,
    gguf: 'granitehybrid',
    names: 'granitemoe',
    mixer: 'stateSpace',
    fusedGate: true,
    experts: { ...graniteExperts, asked: 'num_local_experts' },
    fields: { ...llama.fields, ffn: ['shared_intermediate_size'] },
    biases: { ...unbiased, qkv: 'attention_bias', output: 'attention_bias' },
    namedPositions: true,
  },
  lfm2,
  lfm3: {
    ...lfm2Alone,
    absent: { num_key_value_heads: 4 },
    names: 'lfm3',
    outputGate: 'head',
    layerTypes: { first: 'conv', repeat: ['sliding_attention', 'conv', 'full_attention', 'conv'] },
    norms: 'asked',
    fields: { ffn: ['intermediate_size'], normEps: ['norm_eps', 'rms_norm_eps'], tied: ['tie_word_embeddings'] },
    adjustedFfn: false,
    biases: { ...unbiased, qkv: 'attention_bias', output: 'attention_bias' },
    windows: { every: 4 },
    localTheta: 10_000,
    end: 124_900,
    defaults: {
      ...{ normEps: 1e-5, maxPositions: 128_000, tied: true, headDim: 128, window: 256, theta: 1e6, kernel: 7 },
      rope: {
        full_attention: { rope_type: 'proportional', rope_theta: 1e6, partial_rotary_factor: 0.5 },
        sliding_attention: { rope_type: 'default', rope_theta: 10_000 },
      },
    },
  },
  qwen3_5_text: qwen35,
  gpt_oss: {
    ...llama,
    gguf: 'gpt-oss',
    absent: { num_key_value_heads: 8 },
    names: 'gpt_oss',
    learnedSinks: true,
    experts: {
      ...qwenExperts,
      normalised: 'always',
      bias: true,
      clamped: true,
      width: 'intermediate_size',
      dense: 'none',
      defaults: { count: 128, active: 4 },
    },
    biases: { ...unbiased, qkv: 'attention_bias', output: 'attention_bias' },
    windows: { every: 2 },
    end: undefined,
    interleavedInGguf: false,
    defaults: {
      normEps: 1e-5,
      maxPositions: 131_072,
      tied: false,
      headDim: 64,
      window: 128,
      theta: 150_000,
      rope: { rope_type: 'yarn', factor: 32, truncate: false, original_max_position_embeddings: 4096 },
      biased: true,
    },
  },
  qwen3_moe: {
    ...qwen3,
    gguf: 'qwen3moe',
    absent: { num_key_value_heads: 4 },
    experts: qwenExperts,
    windows: 'asked',
    defaults: { normEps: 1e-6, maxPositions: 32_768, tied: false, window: 4096 },
  },
  qwen3_5_moe_text: {
    ...qwen35,
    gguf: 'qwen35moe',
    within: 'qwen3_5_moe',
    absent: {
      ...{ vocab_size: 248_320, hidden_size: 2048, num_hidden_layers: 40 },
      ...{ num_attention_heads: 16, num_key_value_heads: 2, shared_expert_intermediate_size: 512 },
    },
    fields: { ...qwen35.fields, ffn: ['shared_expert_intermediate_size'] },
    experts: {
      ...qwenExperts,
      normalised: 'always',
      shared: { width: 'shared_expert_intermediate_size', gated: true },
      dense: 'none',
      defaults: { count: 256, active: 8, width: 512, shared: 512 },
    },
  },
  lfm2_moe: {
    ...lfm2,
    gguf: 'lfm2moe',
    fields: { ...lfm2.fields, ffn: ['intermediate_size'] },
    adjustedFfn: false,
    experts: {
      ...qwenExperts,
      scores: 'sigmoid',
      normalised: { absent: true },
      selectionBias: true,
      dense: 'first',
      defaults: { count: 32, active: 4, width: 1792 },
    },
  },
};
