import { compose } from '@kv/core';
import type { Policy } from '@kv/core';
import { snapkv } from '@kv/scorers-attention';
import { topK } from '@kv/selectors-top-k';
import { wholeUnits } from '@kv/selectors-whole-units';
import { chunks, entropyGate } from '@kv/units-chunks';

export interface ChunkkvOptions {
  /** Positions in a chunk. @defaultValue 10 */
  readonly size?: number;
  /** @defaultValue 64 */
  readonly window?: number;
  /** @defaultValue 5 */
  readonly kernel?: number;
}

/**
 * ChunkKV: SnapKV's best chunks of positions stay whole, the same ones in every head of a layer. Liu et al. 2025,
 * arXiv:2502.00299.
 */
export const chunkkv = ({ size = 10, window = 64, kernel = 5 }: ChunkkvOptions = {}): Policy =>
  compose(snapkv({ window, kernel }), chunks({ size }), wholeUnits());

export interface EntropyChunkkvOptions extends ChunkkvOptions {
  /** Slots that a good chunk of low entropy is cut to. @defaultValue 4 */
  readonly low?: number;
}

/**
 * ChunkKV gated by entropy: coherent chunks whole, spiky ones cut to their best slots. kvpress'
 * EntropyGatedChunkKVPress.
 */
export const entropyChunkkv = ({ size = 10, low = 4, window = 64, kernel = 5 }: EntropyChunkkvOptions = {}): Policy =>
  compose(snapkv({ window, kernel }), entropyGate({ size, low }), topK());
