import { createKernel, growTo, hasSimd } from '../simd/kernel.ts';

/** A gated activation, f(gate) * up, of rows `[gate | up]`: f32 `[rows, 2 * ffn]` to a new `[rows, ffn]`. */
export type Gated = (gateUp: Float32Array, ffn: number) => Float32Array;

/** Plain loops, in f64. */
const plain =
  (activation: (x: number) => number): Gated =>
  (gateUp, ffn) => {
    const rows = gateUp.length / (2 * ffn);
    const out = new Float32Array(rows * ffn);
    for (let r = 0; r < rows; r++)
      for (let i = 0; i < ffn; i++)
        out[r * ffn + i] = activation(gateUp[2 * r * ffn + i]) * gateUp[(2 * r + 1) * ffn + i];
    return out;
  };

/** SwiGLU, x / (1 + e^-x) as the activation: the reference. */
export const referenceSwiglu: Gated = plain((x) => x / (1 + Math.exp(-x)));

/** GeGLU with the tanh form of GELU (arXiv 1606.08415). */
export const geglu: Gated = plain((x) => 0.5 * x * (1 + Math.tanh(Math.sqrt(2 / Math.PI) * (x + 0.044715 * x ** 3))));

/** Rows at a time, so that the kernel's memory stays small. */
const block = 64;

/** SwiGLU on the SIMD kernel, in f32, about 2 units in the last place from the reference. */
export function simdSwiglu(): Gated {
  const kernel = createKernel();
  return (gateUp, ffn) => {
    if (ffn < 4) return referenceSwiglu(gateUp, ffn);
    const rows = gateUp.length / (2 * ffn);
    const out = new Float32Array(rows * ffn);
    growTo(kernel.memory, 12 * block * ffn);
    const memory = new Float32Array(kernel.memory.buffer);
    const to = 2 * block * ffn;
    for (let r = 0; r < rows; r += block) {
      const m = Math.min(block, rows - r);
      memory.set(gateUp.subarray(2 * r * ffn, 2 * (r + m) * ffn));
      kernel.swiglu(0, m, ffn, 4 * to);
      out.set(memory.subarray(to, to + m * ffn), r * ffn);
    }
    return out;
  };
}

/** The fastest SwiGLU of this process. */
export function defaultSwiglu(): Gated {
  return hasSimd() ? simdSwiglu() : referenceSwiglu;
}
