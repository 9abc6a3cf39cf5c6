import { kernel } from '@kv/core';
import type { AnySignal } from '@kv/core';

/** The p of a norm. */
export type OutputNorm = 1 | 2;
/** Returns the norm that the signal `values.output` asks for. */
export const outputNormOf = ({ args }: AnySignal): OutputNorm => (args?.['norm'] === 2 ? 2 : 1);

/**
 * Computes |v W_O|_p of every value `[G, n, d]` through each query head's columns of the output product `[D, H d]`:
 * `[H, n]`. The product is in f32; on the host its sums over D are in f64.
 */
export const outputNorms = kernel({
  id: 'output-norms',
  inputs: { values: 'f32', weight: 'f32' },
  params: { p: 'u32' },
  ragged: 'values',
  output: { shape: ({ values: [, n, d], weight }) => [weight[1] / Math.max(1, d), n] },
  wgsl: /* wgsl */ `
fn run(index: u32) {
  let n = values_shape.y; let d = values_shape.z; let h = index / n; let g = h / (weight_shape.y / d / values_shape.x);
  output[index] = 0.0;
  if (index % n >= values_lengths[g]) { return; }
  var total = 0.0;
  for (var j = 0u; j < weight_shape.x; j++) {
    var y = 0.0;
    for (var c = 0u; c < d; c++) { y += weight[j * weight_shape.y + h * d + c] * values[(g * n + index % n) * d + c]; }
    total += select(y * y, abs(y), params.p == 1u);
  }
  output[index] = select(sqrt(total), total, params.p == 1u);
}`,
  operations: ({ values, weight }) => 2 * values.shape[1] * weight.shape.reduce((a, b) => a * b, 1),
  ref({ values: v, weight: w }, { p }, out, lengths, products) {
    const [G = 1, n = 0, d = 0] = v.shape,
      [D = 0, width = 0] = w.shape,
      own = new Float32Array(D * d);
    for (let h = 0; h * d < width; h++) {
      const g = Math.floor((h * d * G) / width),
        count = lengths[g];
      for (let j = 0, to = 0; j < D; j++)
        for (let at = j * width + h * d, end = at + d; at < end; at++) own[to++] = w.data[at];
      const norms = (out as Float32Array).subarray(h * n, h * n + count);
      products.reach(v.data.subarray(g * n * d, (g * n + count) * d), own, d, p === 2 ? 2 : 1, norms);
    }
  },
});
