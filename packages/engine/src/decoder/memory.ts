import { silu } from './f32.ts';
import { convolveColumn, type ConvolutionKernel } from './short-convolution.ts';

/** Returns a token's channels after the convolution and SiLU; its column joins those that `state` begins with. */
export function activatedColumn(column: Float32Array, kernel: ConvolutionKernel, state: Float32Array): Float32Array {
  const { bias } = kernel;
  return convolveColumn(column, kernel, state).map((sum, c) => silu(Math.fround(sum + bias[c])));
}

/**
 * Changes a memory S, `[k.length, change.length]`, by a token, and reads it: `S = g S + k change^T; out = S^T q`. Each
 * product and sum is rounded to f32, in this order.
 */
export function takeUp(
  memory: Float32Array,
  g: number,
  { k, q }: { readonly k: Float32Array; readonly q: Float32Array },
  change: Float32Array,
  out: Float32Array,
): void {
  const { fround } = Math,
    width = change.length;
  out.fill(0, 0, width);
  for (let i = 0, s = 0; i < k.length; i++)
    for (let j = 0; j < width; j++, s++) {
      const next = fround(fround(g * memory[s]) + fround(k[i] * change[j]));
      memory[s] = next;
      out[j] = fround(out[j] + fround(next * q[i]));
    }
}
