import { kernel } from '@kv/core';

/**
 * Σ over the rows of each head of (p / (1 - p))² |v - o|², with finite odds as in `ops.odds`. Weights p `[r, n]`, their
 * outputs o `[r, d]` and values v `[r', n, d]`, to `[heads, n]`.
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
  ref({ p, o, v }, { heads }, out, lengths, { errors }) {
    const [rows = 0, n = 0] = p.shape,
      [G = 1, , d = 0] = v.shape,
      [group, own] = [rows / G, heads / G];
    for (let g = 0; g < G; g++) {
      const count = lengths[g],
        weights = p.data.subarray(g * group * n, (g + 1) * group * n),
        found = new Float32Array(own * count);
      errors(
        o.data.subarray(g * group * d, (g + 1) * group * d),
        v.data.subarray(g * n * d, (g * n + count) * d),
        d,
        count === n ? weights : weights.filter((_, i) => i % n < count),
        found,
      );
      for (let h = 0; h < own; h++) out.set(found.subarray(h * count, (h + 1) * count), (g * own + h) * n);
    }
  },
});
