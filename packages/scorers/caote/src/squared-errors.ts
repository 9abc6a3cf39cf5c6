import { kernel } from '@kv/core';
import { plainProducts } from '@kv/core/shared';

/**
 * Σ over the rows of each head of (p / (1 - p))² |v - o|², the odds finite as `ops.odds` has them: weights p `[r, n]`,
 * their outputs o `[r, d]` and values v `[r', n, d]`, to `[heads, n]`.
 */
export const squaredErrors = kernel({
  id: 'squared-errors',
  inputs: { p: 'f32', o: 'f32', v: 'f32' },
  params: { heads: 'u32' },
  ragged: 'v',
  output: { shape: ({ v }, { heads }) => [heads, v[1]] },
  wgsl: /* wgsl */ `
fn run(index: u32) {
  let n = v_shape.y; let d = v_shape.z; let h = index / n; let count = p_shape.x / params.heads;
  let slot = h / (params.heads / v_shape.x) * n + index % n;
  var total = 0.0;
  for (var row = h * count; row < (h + 1u) * count; row++) {
    var square = 0.0;
    for (var c = 0u; c < d; c++) { let x = v[slot * d + c] - o[row * d + c]; square += x * x; }
    let weight = p[row * n + index % n];
    let odds = weight / max(1.0 - weight, 0x1p-24f);
    total += odds * odds * square;
  }
  output[index] = total;
}`,
  operations: ({ p, v }) => p.shape[0] * p.shape[1] * (3 * v.shape[2] + 5),
  ref({ p, o, v }, { heads }, out, lengths, { multiply, norms } = plainProducts) {
    const [rows = 0, n = 0] = p.shape,
      [G = 1, , d = 0] = v.shape,
      group = rows / G,
      together = new Float32Array(group * n),
      ofOutputs = new Float32Array(rows),
      ofValues = new Float32Array(n),
      sums = new Float64Array(heads * n);
    norms(o.data, d, ofOutputs);
    for (let g = 0; g < G; g++) {
      const count = lengths[g],
        values = v.data.subarray(g * n * d, (g * n + count) * d);
      norms(values, d, ofValues);
      multiply(o.data.subarray(g * group * d, (g + 1) * group * d), values, d, together);
      for (let r = 0, row = g * group; r < group; r++, row++) {
        const weights = p.data.subarray(row * n, row * n + count),
          products = together.subarray(r * count, (r + 1) * count),
          sum = sums.subarray(Math.floor((row * heads) / rows) * n),
          own = ofOutputs[row] ** 2;
        for (let i = 0; i < count; i++) {
          const all = own + ofValues[i] * ofValues[i],
            weight = weights[i],
            rest = 1 - weight,
            odds = weight / (rest > LEAST ? rest : LEAST);
          let square = all - 2 * products[i];
          if (square < NEAR * all) square = apart(o.data, row * d, values, i * d, d);
          sum[i] += odds * odds * square;
        }
      }
    }
    out.set(sums);
  },
});

/** What is left of 1 by the largest weight of finite odds. */
const LEAST = 2 ** -24;
/** The part of |v|² + |o|² below which 2 v·o leaves few digits of it. */
const NEAR = 2 ** -6;

/** |a - b|² of d numbers from i and j on. */
function apart(a: Float32Array, i: number, b: Float32Array, j: number, d: number): number {
  let sum = 0;
  for (let c = 0; c < d; c++) sum += (a[i + c] - b[j + c]) ** 2;
  return sum;
}
