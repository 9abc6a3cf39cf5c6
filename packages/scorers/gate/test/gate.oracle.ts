import type { CompetingGate, LayerGate, RegressionGate } from '../src/gate-file.ts';

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

/** The score of one input x for each KV head, in plain loops, in f64. */
export const gateOracle = (gate: LayerGate, x: readonly number[]): number[] =>
  'output' in gate ? regression(gate, x) : competing(gate, x);

function affine(weight: ArrayLike<number>, bias: readonly number[], of: readonly number[]): number[] {
  return bias.map((b, i) => {
    let sum = b;
    for (let c = 0; c < of.length; c++) sum += weight[i * of.length + c] * of[c];
    return sum;
  });
}
const regression = ({ hidden, output }: RegressionGate, x: readonly number[]): number[] =>
  affine(
    output.weight,
    Array.from(output.bias),
    hidden ? affine(hidden.weight, Array.from(hidden.bias), x).map(geluOracle) : x,
  );

/** As kvpress' FastKVzipGate: heads of channels, normed, against sinks and themselves. */
function competing({ kvHeads: G, query, key, gains, base, bias }: CompetingGate, x: readonly number[]): number[] {
  const c = gains.key.length,
    R = bias.length / G,
    S = base.length / (G * c);
  const normed = (row: readonly number[], gain: ArrayLike<number>): number[] => {
    const mean = row.reduce((sum, v) => sum + v * v, 0) / c;
    return row.map((v, i) => (v / Math.sqrt(mean + 1e-6)) * gain[i]);
  };
  const dot = (a: readonly number[], b: readonly number[]): number => a.reduce((sum, v, i) => sum + v * b[i], 0);
  const queries = affine(query.weight, Array.from(query.bias), x),
    keys = affine(key, new Array<number>(G * c).fill(0), x);
  return Array.from({ length: G }, (_, g) => {
    const k = normed(keys.slice(g * c, (g + 1) * c), gains.key);
    const shares = Array.from({ length: R }, (__, r) => {
      const q = normed(queries.slice((g * R + r) * c, (g * R + r + 1) * c), gains.query),
        own = Math.exp(dot(k, q) / Math.sqrt(c) + bias[g * R + r]),
        others = Array.from({ length: S }, (___, s) =>
          Math.exp(dot(Array.from(base.slice((g * S + s) * c, (g * S + s + 1) * c)), q) / Math.sqrt(c)),
        );
      return own / (own + others.reduce((a, b) => a + b, 0)); // a softmax over sinks and the token
    });
    return shares.reduce((a, b) => a + b, 0) / R;
  });
}
