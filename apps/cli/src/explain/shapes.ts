import type { ModelConfig } from '@kv/models';

const shape = (
  layers: number,
  queryHeads: number,
  kvHeads: number,
  headDim: number,
  hidden: number,
  ffn: number,
  vocab: number,
): ModelConfig =>
  ({
    ...{ layers, queryHeads, kvHeads, headDim, hidden, ffn, vocab, maxPositions: 131_072 },
    attention: { scale: headDim ** -0.5, windows: [] },
  }) as Partial<ModelConfig> as ModelConfig;

/** Shapes of known models, for predictions without a file: all that costs depend on. */
export const SHAPES: Readonly<Record<string, ModelConfig>> = {
  'llama-3.2-1b': shape(16, 32, 8, 64, 2048, 8192, 128_256),
  'llama-3.1-8b': shape(32, 32, 8, 128, 4096, 14_336, 128_256),
};
