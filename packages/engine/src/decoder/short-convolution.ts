import type { ConvolutionWeights } from '@kv/checkpoints';

/** The kernel of a gated short convolution, by tap. */
export interface ConvolutionKernel {
  /** Tokens L that it spans, the newest included. */
  readonly length: number;
  readonly channels: number;
  /** `[L, channels]`; the last row is of the token itself. */
  readonly taps: Float32Array;
  /** `[channels]`, zeros where there is none. */
  readonly bias: Float32Array;
}

/** Returns the kernel of a layer, as loops read it: tap by tap. */
export function convolutionKernel({ input, kernel, kernelBias }: ConvolutionWeights): ConvolutionKernel {
  const channels = input.outputs / 3,
    taps = tapByTap(kernel, channels);
  return { length: kernel.length / channels, channels, taps, bias: kernelBias ?? new Float32Array(channels) };
}

/** Returns a kernel `[channels, L]` as `[L, channels]`. */
export function tapByTap(kernel: Float32Array, channels: number): Float32Array {
  const length = kernel.length / channels,
    taps = new Float32Array(kernel.length);
  for (let c = 0; c < channels; c++) for (let j = 0; j < length; j++) taps[j * channels + c] = kernel[c * length + j];
  return taps;
}

/**
 * Computes a gated short convolution of rows `[B | C | u]`, `[m, 3 * channels]`, one token after the other: `C * (sum of
 * taps * z)`, where z = B * u of the token and those before it. Each product and sum is rounded to f32, in this order,
 * so that a token's result does not depend on how tokens are divided into blocks, nor on who computes it.
 *
 * @param state z of the last L - 1 tokens, `[L - 1, channels]`, oldest first; replaced by those of the newest
 * @returns `[m, channels]`
 */
export function shortConvolution(
  rows: Float32Array,
  { length: L, channels, taps, bias }: ConvolutionKernel,
  state: Float32Array,
): Float32Array {
  const { fround } = Math,
    m = rows.length / (3 * channels),
    out = new Float32Array(m * channels),
    last = (L - 1) * channels;
  for (let r = 0; r < m; r++)
    for (let c = 0; c < channels; c++) {
      const at = 3 * r * channels + c,
        z = fround(rows[at] * rows[at + 2 * channels]);
      let sum = 0;
      for (let j = c; j < last; j += channels) sum = fround(sum + fround(taps[j] * state[j]));
      sum = fround(sum + fround(taps[last + c] * z));
      out[r * channels + c] = rows[at + channels] * fround(sum + bias[c]);
      for (let j = c; j < last - channels; j += channels) state[j] = state[j + channels];
      if (last > 0) state[last - channels + c] = z;
    }
  return out;
}
