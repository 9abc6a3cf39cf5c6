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
 * Returns the causal convolution of one more column with those before it, per channel: the sum of taps times columns,
 * oldest first. Each product and sum is rounded to f32. The column joins the state.
 *
 * @param column `[channels]`
 * @param state begins with the last L - 1 columns, `[L - 1, channels]`, oldest first
 */
export function convolveColumn(
  column: Float32Array,
  { taps, length, channels }: Pick<ConvolutionKernel, 'taps' | 'length' | 'channels'>,
  state: Float32Array,
): Float32Array {
  const { fround } = Math,
    last = (length - 1) * channels,
    sums = new Float32Array(channels);
  for (let c = 0; c < channels; c++) {
    let sum = 0;
    for (let j = c; j < last; j += channels) sum = fround(sum + fround(taps[j] * state[j]));
    sums[c] = sum + fround(taps[last + c] * column[c]);
  }
  if (last > 0) {
    state.copyWithin(0, channels, last);
    state.set(column, last - channels);
  }
  return sums;
}

/**
 * Computes a gated short convolution of rows `[B | C | u]`, `[m, 3 * channels]`, one token after the other: `C * (sum of
 * taps * z)`, where z = B * u of the token and those before it. Each product and sum is rounded to f32, in this order,
 * so that a token's result does not depend on how tokens are divided into blocks, nor on who computes it.
 *
 * @param state z of the last L - 1 tokens, `[L - 1, channels]`, oldest first; replaced by those of the newest
 * @returns `[m, channels]`
 */
export function shortConvolution(rows: Float32Array, kernel: ConvolutionKernel, state: Float32Array): Float32Array {
  const { channels, bias } = kernel,
    m = rows.length / (3 * channels),
    out = new Float32Array(m * channels),
    z = new Float32Array(channels);
  for (let r = 0; r < m; r++) {
    const at = 3 * r * channels;
    for (let c = 0; c < channels; c++) z[c] = rows[at + c] * rows[at + 2 * channels + c];
    const sums = convolveColumn(z, kernel, state);
    for (let c = 0; c < channels; c++) out[r * channels + c] = rows[at + channels + c] * Math.fround(sums[c] + bias[c]);
  }
  return out;
}
