import { inner } from './inner.ts';
import { kernel } from './kernel.ts';

/**
 * Inner product of each vector with another of its row, selected by `index` u32 `[r, n]`: x `[r, n, d]` to `[r, n]`.
 */
export const dotWith = kernel({
  id: 'dot-with',
  inputs: { x: 'f32', index: 'u32' },
  ragged: 'x',
  output: { shape: ({ index }) => index },
  wgsl: /* wgsl */ `
fn run(i: u32) {
  let n = x_shape.y; let d = x_shape.z;
  let other = (i / n * n + min(index[i], n - 1u)) * d;
  var sum = 0.0;
  for (var c = 0u; c < d; c++) { sum += x[i * d + c] * x[other + c]; }
  output[i] = sum;
}`,
  operations: ({ x }) => 2 * x.shape.reduce((a, b) => a * b, 1),
  ref({ x, index }, _, out, lengths) {
    const [r = 0, n = 0, d = 0] = x.shape,
      { data } = x;
    for (let row = 0; row < r; row++)
      for (let i = 0; i < lengths[row]; i++) {
        out[row * n + i] = inner(data, (row * n + i) * d, data, (row * n + index.data[row * n + i]) * d, d);
      }
  },
});
