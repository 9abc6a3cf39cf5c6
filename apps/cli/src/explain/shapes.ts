import { parseConfig } from '@kv/checkpoints';
import type { ModelConfig } from '@kv/models';

const llama = (
  num_hidden_layers: number,
  head_dim: number,
  hidden_size: number,
  intermediate_size: number,
  tie_word_embeddings: boolean,
): ModelConfig =>
  parseConfig(
    {
      model_type: 'llama',
      ...{ num_hidden_layers, head_dim, hidden_size, intermediate_size, tie_word_embeddings },
      ...{ num_attention_heads: 32, num_key_value_heads: 8, vocab_size: 128_256 },
      ...{ max_position_embeddings: 131_072, rope_theta: 500_000, rms_norm_eps: 1e-5 },
    },
    'a shape',
  );

/** Shapes of known models, for predictions without a checkpoint. */
export const SHAPES: Readonly<Record<string, ModelConfig>> = {
  'llama-3.2-1b': llama(16, 64, 2048, 8192, true),
  'llama-3.1-8b': llama(32, 128, 4096, 14_336, false),
  'qwen3.5-0.8b': parseConfig(
    {
      model_type: 'qwen3_5_text',
      ...{ num_hidden_layers: 24, head_dim: 256, hidden_size: 1024, intermediate_size: 3584 },
      ...{ num_attention_heads: 8, num_key_value_heads: 2, vocab_size: 248_320, tie_word_embeddings: true },
      ...{ linear_num_key_heads: 16, linear_num_value_heads: 16, linear_key_head_dim: 128 },
      ...{ linear_value_head_dim: 128, linear_conv_kernel_dim: 4, full_attention_interval: 4 },
      ...{ max_position_embeddings: 262_144, rope_theta: 10_000_000, partial_rotary_factor: 0.25 },
    },
    'a shape',
  ),
};
