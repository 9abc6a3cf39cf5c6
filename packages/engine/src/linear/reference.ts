import { dense } from '@kv/checkpoints';
import type { LinearFactory } from './linear.ts';

/** Plain loops, accumulating in f64: the reference, and what runs where WebAssembly SIMD is missing. */
export const referenceLinear: LinearFactory = (matrix) => {
  const { inputs, outputs } = matrix,
    weight = dense(matrix);
  return {
    inputs,
    outputs,
    rowwise: true,
    apply(x, rows) {
      const y = new Float32Array(rows * outputs);
      for (let r = 0; r < rows; r++) {
        const at = r * outputs;
        let o = 0;
        for (; o + 4 <= outputs; o += 4) fourOutputs(x, r * inputs, weight, o * inputs, inputs, y, at + o);
        for (; o < outputs; o++) y[at + o] = dot(x, r * inputs, weight, o * inputs, inputs);
      }
      return y;
    },
    destroy() {},
  };
};

/** y[at .. at + 4) = the products of one row of x with four rows of w. */
function fourOutputs(
  x: Float32Array,
  xAt: number,
  w: Float32Array,
  wAt: number,
  n: number,
  y: Float32Array,
  at: number,
): void {
  const w1 = wAt + n;
  const w2 = w1 + n;
  const w3 = w2 + n;
  let a = 0;
  let b = 0;
  let c = 0;
  let d = 0;
  for (let i = 0; i < n; i++) {
    const v = x[xAt + i];
    a += v * w[wAt + i];
    b += v * w[w1 + i];
    c += v * w[w2 + i];
    d += v * w[w3 + i];
  }
  y[at] = a;
  y[at + 1] = b;
  y[at + 2] = c;
  y[at + 3] = d;
}

function dot(x: Float32Array, xAt: number, w: Float32Array, wAt: number, n: number): number {
  let sum = 0;
  for (let i = 0; i < n; i++) sum += x[xAt + i] * w[wAt + i];
  return sum;
}
