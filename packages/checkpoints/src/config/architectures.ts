import type { JsonFields } from '../read/fields.ts';

/** How one kind of decoder differs from the others, as data: this is the complete list of differences. */
export interface Architecture {
  /** Its `general.architecture` in GGUF files. */
  readonly gguf: string;
  /** `model_type` of a config.json, of a model that also reads images, that holds the text model's in `text_config`. */
  readonly within?: string;
  /**
   * Another `model_type` of the same decoder, of a text model and of the whole, with fields that count where config.json
   * lacks them.
   */
  readonly alias?: { readonly text: string; readonly within: string; readonly absent: JsonFields };
  /** Names of tensors: Llama's, or those of LFM2, Qwen 3.5 or Gemma 4. */
  readonly names: 'llama' | 'lfm2' | 'qwen3_5' | 'gemma4';
  /** What some layers have instead of attention. */
  readonly mixer?: 'shortConvolution' | 'gatedDelta';
  /** Whether what heads give is gated; a head's rows of the query product are then followed by those of its gate. */
  readonly outputGate: boolean;
  /** Whether q, k, v and gate, up are each stored as one fused matrix. */
  readonly fused: boolean;
  /** Normalisation of q and k before rotation: per head, or over all heads of a token together. */
  readonly qkNorm: 'none' | 'head' | 'projection';
  /** Whether values are normalised per head, without a gain. */
  readonly valueNorm: boolean;
  /**
   * Whether layers may differ in heads and widths, read the slots of earlier layers, and take inputs of their own; see
   * layers.ts.
   */
  readonly byLayer: boolean;
  /** Where norms are: before attention and the feed-forward layer, after them (before the residual add), or both. */
  readonly norms: 'before' | 'after' | 'around';
  /** Whether Hugging Face checkpoints store gains as w of `1 + w`. GGUF files hold the sum. */
  readonly gainsFromOne: boolean;
  /** Whether embeddings are multiplied by sqrt(D). */
  readonly scaledEmbedding: boolean;
  /** What scales scores: the head's width or a config field to the power -1/2, a config field as it is, or nothing. */
  readonly scale: 'one' | 'head' | 'query_pre_attn_scalar' | 'attention_multiplier';
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
   * Layers with a sliding window: all; all but every n-th, the first of these being layer 0 or layer n - 1; from `max_window_layers` on; or those without positions. The
   * last two apply only if `use_sliding_window` is set.
   */
  readonly windows: 'none' | 'all' | 'from' | 'unturned' | { readonly every: number; readonly first?: boolean };
  /** Every n-th layer applies no rotation, unless `no_rope_layers` lists others. */
  readonly unturned?: number;
  /**
   * Whether `layer_rope_theta` may list each layer's RoPE base, 0 for a layer that rotates nothing; in GGUF files, which know
   * one base, `attention.rope_pattern` lists the layers that do.
   */
  readonly listedThetas: boolean;
  /** RoPE base of layers with a window, which then use no scaling. */
  readonly localTheta?: number;
  /** Whether a config may rotate only a leading part of each head. */
  readonly partialRotary: boolean;
  /** Whether RoPE's pairs are divided among the three positions of a part of an image; for text all three are equal. */
  readonly imagePositions: boolean;
  /** Whether GGUF files store the rows of q and k in interleaved-pair order. */
  readonly interleavedInGguf: boolean;
  /**
   * Meaning of an absent field of config.json, as in transformers. `headDim` defaults to hidden_size /
   * num_attention_heads, `theta` to 10,000, `rotary`, the part of a head that is rotated, to 1.
   */
  readonly defaults: {
    readonly normEps: number;
    readonly maxPositions: number;
    readonly tied: boolean;
    readonly headDim?: number;
    readonly window?: number;
    readonly theta?: number;
    readonly rotary?: number;
  };
}

/** The supported `model_type` values of config.json. */
export type ArchitectureName =
  | 'llama'
  | 'mistral'
  | 'qwen2'
  | 'qwen3'
  | 'phi3'
  | 'gemma2'
  | 'gemma3_text'
  | 'gemma4_text'
  | 'smollm3'
  | 'olmo2'
  | 'granite'
  | 'granite_swa'
  | 'lfm2'
  | 'qwen3_5_text';

type Bias = boolean | 'attention_bias' | 'mlp_bias';

const llama: Architecture = {
  gguf: 'llama',
  names: 'llama',
  outputGate: false,
  fused: false,
  qkNorm: 'none',
  valueNorm: false,
  byLayer: false,
  norms: 'before',
  gainsFromOne: false,
  scaledEmbedding: false,
  scale: 'head',
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
  interleavedInGguf: true,
  defaults: { normEps: 1e-6, maxPositions: 2048, tied: false },
};

const unbiased = { qkv: false, output: false, ffn: false } as const;

const gemma2: Architecture = {
  ...llama,
  gguf: 'gemma2',
  norms: 'around',
  gainsFromOne: true,
  scaledEmbedding: true,
  scale: 'query_pre_attn_scalar',
  softcaps: { scores: 50, logits: 30 },
  activation: 'gelu',
  biases: { ...unbiased, qkv: 'attention_bias', output: 'attention_bias' },
  windows: { every: 2 },
  interleavedInGguf: false,
  defaults: { normEps: 1e-6, maxPositions: 8192, tied: true, headDim: 256, window: 4096 },
};

const granite: Architecture = {
  ...llama,
  gguf: 'granite',
  scale: 'attention_multiplier',
  multipliers: true,
};

/** The supported architectures by `model_type` of config.json, each with its differences from Llama. */
export const architectures: Readonly<Record<ArchitectureName, Architecture>> = {
  llama,
  mistral: {
    ...llama,
    biases: unbiased,
    windows: 'all',
    defaults: { normEps: 1e-6, maxPositions: 131_072, tied: false, window: 4096 },
  },
  qwen2: {
    ...llama,
    gguf: 'qwen2',
    biases: { ...unbiased, qkv: true },
    windows: 'from',
    interleavedInGguf: false,
    defaults: { normEps: 1e-6, maxPositions: 32_768, tied: false, window: 4096 },
  },
  qwen3: {
    ...llama,
    gguf: 'qwen3',
    qkNorm: 'head',
    biases: { ...unbiased, qkv: 'attention_bias', output: 'attention_bias' },
    windows: 'from',
    interleavedInGguf: false,
    defaults: { normEps: 1e-6, maxPositions: 32_768, tied: false, headDim: 128, window: 4096 },
  },
  phi3: {
    ...llama,
    gguf: 'phi3',
    fused: true,
    biases: unbiased,
    windows: 'all',
    partialRotary: true,
    interleavedInGguf: false,
    defaults: { normEps: 1e-5, maxPositions: 4096, tied: false },
  },
  gemma2,
  gemma3_text: {
    ...gemma2,
    gguf: 'gemma3',
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
    windows: { every: 6 },
    localTheta: 10_000,
    defaults: { normEps: 1e-6, maxPositions: 131_072, tied: true, headDim: 256, window: 512, theta: 1e6 },
  },
  smollm3: {
    ...llama,
    gguf: 'smollm3',
    windows: 'unturned',
    unturned: 4,
    defaults: { normEps: 1e-6, maxPositions: 32_768, tied: true, theta: 2e6 },
  },
  olmo2: {
    ...llama,
    gguf: 'olmo2',
    qkNorm: 'projection',
    norms: 'after',
    biases: { ...unbiased, qkv: 'attention_bias', output: 'attention_bias' },
    interleavedInGguf: false,
    defaults: { normEps: 1e-5, maxPositions: 2048, tied: false },
  },
  granite,
  granite_swa: {
    ...granite,
    gguf: 'granite_swa',
    learnedSinks: true,
    windows: { every: 4, first: true },
    listedThetas: true,
    defaults: { normEps: 1e-5, maxPositions: 8192, tied: true, window: 128 },
  },
  lfm2: {
    ...llama,
    gguf: 'lfm2',
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
  },
  qwen3_5_text: {
    ...llama,
    gguf: 'qwen35',
    within: 'qwen3_5',
    names: 'qwen3_5',
    mixer: 'gatedDelta',
    outputGate: true,
    qkNorm: 'head',
    gainsFromOne: true,
    biases: { ...unbiased, qkv: 'attention_bias', output: 'attention_bias' },
    partialRotary: true,
    imagePositions: true,
    interleavedInGguf: false,
    defaults: { normEps: 1e-6, maxPositions: 32_768, tied: false, headDim: 256, rotary: 0.25 },
  },
};
