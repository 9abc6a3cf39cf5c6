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
  ref({ p, o, v }, { heads }, out, lengths, { distances } = plainProducts) {
    const [rows = 0, n = 0] = p.shape,
      [G = 1, , d = 0] = v.shape,
      each = rows / heads,
      outputs = o.data,
      far = new Float32Array(each * n),
      totals = new Float64Array(n);
    for (let h = 0; h < heads; h++) {
      const g = Math.floor((h * G) / heads),
        count = lengths[g];
      distances(
        outputs.subarray(h * each * d, (h + 1) * each * d),
        v.data.subarray(g * n * d, (g * n + count) * d),
        d,
        far,
      );
      totals.fill(0);
      for (let r = 0; r < each; r++)
        for (let i = 0, at = (h * each + r) * n; i < count; i++) {
          const weight = p.data[at + i],
            error = (weight / Math.max(1 - weight, 2 ** -24)) * far[r * count + i];
          totals[i] += error * error;
        }
      out.set(totals, h * n);
    }
  },
});
