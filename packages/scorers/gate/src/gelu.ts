import { kernel } from '@kv/core';

/**
 * GELU with the error function, x (1 + erf(x / sqrt 2)) / 2, of every number of x `[rows, n]`.
 *
 * @remarks erf by Abramowitz and Stegun, formula 7.1.26, off by at most 1.5e-7.
 */
export const gelu = kernel({
  id: 'gelu',
  inputs: { x: 'f32' },
  output: { shape: ({ x }) => x },
  wgsl: /* wgsl */ `
fn run(index: u32) {
  let z = x[index]; let a = abs(z) * 0.7071067811865476;
  let t = 1.0 / (1.0 + 0.3275911 * a);
  let tail = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429)))) * exp(-a * a);
  output[index] = 0.5 * z * select(tail, 2.0 - tail, z >= 0.0);
}`,
  ref({ x: { data } }, _, out) {
    for (let i = 0; i < data.length; i++) {
      const z = data[i],
        a = Math.abs(z) * Math.SQRT1_2,
        t = 1 / (1 + 0.3275911 * a),
        tail =
          t *
          (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429)))) *
          Math.exp(-a * a);
      out[i] = 0.5 * z * (z >= 0 ? 2 - tail : tail);
    }
  },
});
