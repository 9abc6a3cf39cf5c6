import type { LayerGate } from '../src/gate-file.ts';

/** erf by its Maclaurin series, in f64; 1 beyond 4 within 2e-8. */
function erf(z: number): number {
  if (Math.abs(z) > 4) return Math.sign(z);
  let term = z,
    sum = z;
  for (let k = 1; k < 120; k++) {
    term *= -(z * z) / k;
    sum += term / (2 * k + 1);
  }
  return (2 / Math.sqrt(Math.PI)) * sum;
}
export const geluOracle = (x: number): number => (x / 2) * (1 + erf(x / Math.SQRT2));

/** W x + b, or W GELU(V x + c) + b, of one input x in plain loops, in f64. */
export function gateOracle({ hidden, output }: LayerGate, x: readonly number[]): number[] {
  const affine = (weight: ArrayLike<number>, bias: ArrayLike<number>, of: readonly number[]): number[] =>
    Array.from(bias, (b, i) => {
      let sum = b;
      for (let c = 0; c < of.length; c++) sum += weight[i * of.length + c] * of[c];
      return sum;
    });
  return affine(output.weight, output.bias, hidden ? affine(hidden.weight, hidden.bias, x).map(geluOracle) : x);
}
