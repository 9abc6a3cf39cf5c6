import type { ModelConfig } from './config.ts';

/**
 * What mixes the tokens of a layer, and so what a sequence keeps in it: attention keeps a slot (key and value) of every
 * token, which policies may evict; any other mixer keeps a state of fixed size, which holds a trace of every token so
 * far and cannot be cut back.
 */
export type Mixer = AttentionMixer | ShortConvolution;

/** Attention; its heads, window and RoPE are fields of the configuration. */
export interface AttentionMixer {
  readonly kind: 'attention';
}

/**
 * Gated short convolution (LFM2). With B, C, u the thirds of a product of the normed input: `z = B * u`, then `y_t = C_t
 * * sum_j kernel[j] z_(t - L + 1 + j)` in every channel, then the output product. Its state is `z` of the last L - 1
 * tokens, zeros before the first.
 */
export interface ShortConvolution {
  readonly kind: 'shortConvolution';
  /** Channels of B, C and u. */
  readonly channels: number;
  /** Tokens L that a kernel spans, its own included. */
  readonly kernel: number;
  /** Whether the kernel and both products add a bias. */
  readonly bias: boolean;
}

/** Returns the layers that keep slots, in order: those with attention. */
export const slotLayers = ({ mixers }: Pick<ModelConfig, 'mixers'>): readonly number[] =>
  [...mixers.keys()].filter((layer) => mixers[layer].kind === 'attention');

/** Returns the numbers of a layer's state; 0 for a layer that keeps slots. */
export const stateNumbers = (mixer: Mixer): number =>
  mixer.kind === 'shortConvolution' ? (mixer.kernel - 1) * mixer.channels : 0;

/** Returns mixers of layers that all have attention. */
export const onlyAttention = (layers: number): readonly Mixer[] =>
  Array.from({ length: layers }, () => ({ kind: 'attention' }));
