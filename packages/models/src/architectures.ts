/** What one kind of decoder does otherwise than the next: the whole list of differences, as data. */
export interface Architecture {
  /** q|k|v and gate|up are stored as one matrix each. */
  readonly fused: boolean;
  /** Every head of q and k is normalised before it is turned. */
  readonly qkNorm: boolean;
  /** The outputs of attention and of the feed-forward layer are normalised before they join the residual stream. */
  readonly postNorms: boolean;
  /** Hugging Face checkpoints store gains as w of `1 + w`; GGUF files hold the sum. */
  readonly gainsFromOne: boolean;
  /** Embeddings are multiplied by sqrt(D). */
  readonly scaledEmbedding: boolean;
  /** The score scale is `query_pre_attn_scalar ** -0.5` and scores and logits may be soft-capped. */
  readonly softcaps: boolean;
  /** Products with a bias: always, never, or as the field of config.json says. */
  readonly biases: { readonly qkv: Bias; readonly output: Bias; readonly ffn: Bias };
  /**
   * Layers with a sliding window: all, the even ones, or from `max_window_layers` on where `use_sliding_window` says
   * so.
   */
  readonly windows: 'none' | 'all' | 'even' | 'from';
  /** Only a leading part of each head may be turned. */
  readonly partialRotary: boolean;
  /** GGUF files hold the rows of q and k in the order of interleaved pairs. */
  readonly interleavedInGguf: boolean;
  /**
   * What an absent field of config.json means, as in transformers; `headDim` absent is hidden_size /
   * num_attention_heads.
   */
  readonly defaults: {
    readonly normEps: number;
    readonly maxPositions: number;
    readonly tied: boolean;
    readonly headDim?: number;
    readonly window?: number;
  };
}

export type ArchitectureName = 'llama' | 'mistral' | 'qwen2' | 'qwen3' | 'phi3' | 'gemma2';

type Bias = boolean | 'attention_bias' | 'mlp_bias';

const llama: Architecture = {
  fused: false,
  qkNorm: false,
  postNorms: false,
  gainsFromOne: false,
  scaledEmbedding: false,
  softcaps: false,
  biases: { qkv: 'attention_bias', output: 'attention_bias', ffn: 'mlp_bias' },
  windows: 'none',
  partialRotary: false,
  interleavedInGguf: true,
  defaults: { normEps: 1e-6, maxPositions: 2048, tied: false },
};

const unbiased = { qkv: false, output: false, ffn: false } as const;

/**
 * The architectures, by the `model_type` of config.json and the `general.architecture` of GGUF, with what sets each
 * apart from Llama.
 */
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
    biases: { ...unbiased, qkv: true },
    windows: 'from',
    interleavedInGguf: false,
    defaults: { normEps: 1e-6, maxPositions: 32_768, tied: false, window: 4096 },
  },
  qwen3: {
    ...llama,
    qkNorm: true,
    biases: { ...unbiased, qkv: 'attention_bias', output: 'attention_bias' },
    windows: 'from',
    interleavedInGguf: false,
    defaults: { normEps: 1e-6, maxPositions: 32_768, tied: false, headDim: 128, window: 4096 },
  },
  phi3: {
    ...llama,
    fused: true,
    biases: unbiased,
    windows: 'all',
    partialRotary: true,
    interleavedInGguf: false,
    defaults: { normEps: 1e-5, maxPositions: 4096, tied: false },
  },
  gemma2: {
    ...llama,
    postNorms: true,
    gainsFromOne: true,
    scaledEmbedding: true,
    softcaps: true,
    biases: { ...unbiased, qkv: 'attention_bias', output: 'attention_bias' },
    windows: 'even',
    interleavedInGguf: false,
    defaults: { normEps: 1e-6, maxPositions: 8192, tied: true, headDim: 256, window: 4096 },
  },
};
