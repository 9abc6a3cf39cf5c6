import { kernel } from '@kv/core';

/** What is added to a mean of squares, as in the authors' norm. */
const EPS = 1e-6;

/**
 * The share that a token's key wins against the S learned keys of its head, mean over the R queries of the head: queries `[G R
 * c, m]` and keys `[G c, m]` to `[G, m]`. With q, k the rows of a token, each divided by its root mean square and times its
 * gain: the mean over r of 1 / (1 + Σ_s exp(base_s·q_r / √c - (k·q_r / √c + bias_r))).
 *
 * @remarks Fast KVzip, arXiv:2601.17668, as kvpress has it.
 */
export const competition = kernel({
  id: 'gate-competition',
  inputs: { query: 'f32', key: 'f32', gains: 'f32', base: 'f32', bias: 'f32' },
  output: { shape: ({ key: [, m = 0], bias: [G = 0] }) => [G, m] },
  wgsl: /* wgsl */ `
fn run(index: u32) {
  let m = key_shape.y; let g = index / m; let j = index % m;
  let c = gains_shape.y; let R = bias_shape.y; let S = base_shape.y / c;
  var squares = 0.0;
  for (var i = 0u; i < c; i++) { let x = key[(g * c + i) * m + j]; squares += x * x; }
  let k_scale = inverseSqrt(squares / f32(c) + ${EPS});
  var total = 0.0;
  for (var r = 0u; r < R; r++) {
    let row = (g * R + r) * c;
    squares = 0.0;
    for (var i = 0u; i < c; i++) { let x = query[(row + i) * m + j]; squares += x * x; }
    let q_scale = inverseSqrt(squares / f32(c) + ${EPS}) / sqrt(f32(c));
    var own = bias[g * R + r];
    for (var i = 0u; i < c; i++) {
      own += key[(g * c + i) * m + j] * k_scale * gains[c + i] * query[(row + i) * m + j] * q_scale * gains[i];
    }
    var others = 0.0;
    for (var s = 0u; s < S; s++) {
      var other = -own;
      for (var i = 0u; i < c; i++) {
        other += base[g * S * c + s * c + i] * query[(row + i) * m + j] * q_scale * gains[i];
      }
      others += exp(min(other, 80.0));
    }
    total += 1.0 / (1.0 + others);
  }
  output[index] = total / f32(R);
}`,
  operations: ({
    query: {
      shape: [rows = 0, m = 0],
    },
    base: {
      shape: [, keys = 0],
    },
  }) => 4 * rows * m * (1 + keys),
  ref({ query, key, gains, base, bias }, _, out) {
    const [, m = 0] = key.shape,
      [G = 0, R = 0] = bias.shape,
      [, c = 0] = gains.shape,
      S = (base.shape[1] ?? 0) / c,
      [q, k] = [new Float64Array(c), new Float64Array(c)];
    /** Puts the normed numbers of token j from row `row` on into `to`. */
    const normed = (x: ArrayLike<number>, row: number, j: number, gain: number, to: Float64Array): void => {
      let squares = 0;
      for (let i = 0; i < c; i++) squares += x[(row + i) * m + j] ** 2;
      const by = 1 / Math.sqrt(squares / c + EPS);
      for (let i = 0; i < c; i++) to[i] = x[(row + i) * m + j] * by * gains.data[gain + i];
    };
    for (let g = 0; g < G; g++)
      for (let j = 0; j < m; j++) {
        normed(key.data, g * c, j, c, k);
        let total = 0;
        for (let r = 0; r < R; r++) {
          normed(query.data, (g * R + r) * c, j, 0, q);
          let own = bias.data[g * R + r],
            others = 0;
          for (let i = 0; i < c; i++) own += (k[i] * q[i]) / Math.sqrt(c);
          for (let s = 0; s < S; s++) {
            let other = -own;
            for (let i = 0; i < c; i++) other += (base.data[(g * S + s) * c + i] * q[i]) / Math.sqrt(c);
            others += Math.exp(Math.min(other, 80));
          }
          total += 1 / (1 + others);
        }
        out[g * m + j] = total / R;
      }
  },
});
