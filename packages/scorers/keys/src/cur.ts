import { count, kernel, keys, oneOf, positions, values, weightScorer, whole } from '@kv/core';
import type { Tensor } from '@kv/core';

/**
 * CUR: squared norms of key and value, each as a share of its window of slots, multiplied and normalised per head:
 * approximate leverage scores.
 *
 * @remarks Sengupta et al. 2025, arXiv:2509.15038, with kvpress' defaults. Weights on KV rows `[G, n]`, at most 1;
 * sinks score 1. Reads no attention, and keys and values once. O(G n (d + window)).
 */
export const cur = weightScorer(
  'cur',
  {
    source: 'Sengupta et al. 2025, arXiv:2509.15038',
    says: 'Approximate leverage scores of keys and values.',
    options: {
      sinks: whole(4, 'positions', 'First positions, which get the score 1.'),
      window: count(16, 'slots', 'Slots whose squared norms are measured against each other.'),
      of: oneOf(
        ['key', 'value', 'product', 'mean'],
        'product',
        "Whose squared norms: keys', values', their product or their mean.",
      ),
    },
    needs: [keys, values, positions],
  },
  ({ ops, at, keys: k, values: v, positions: p }, { sinks, window, of }) => {
    const sizes = { window: Math.min(window, Math.max(1, at.slots)) };
    const share = (x: Tensor): Tensor => ops.kernel(windowShare, { norm: ops.norm(x) }, sizes);
    const shares = {
      key: () => share(k),
      value: () => share(v),
      product: () => ops.mul(share(k), share(v)),
      mean: () => ops.div(ops.add(share(k), share(v)), 2),
    };
    return ops.where(ops.less(p, sinks), 1, ops.simplex(shares[of]()));
  },
);

/** Squared norms as shares of their sum over the slot's window, 0 where the sum is 0: norm `[G, n]` to `[G, n]`. */
export const windowShare = kernel({
  id: 'window-share',
  inputs: { norm: 'f32' },
  params: { window: 'u32' },
  ragged: 'norm',
  output: { shape: ({ norm }) => norm },
  wgsl: /* wgsl */ `
fn run(index: u32) {
  let n = norm_shape.y; let g = index / n; let i = index % n; let count = norm_lengths[g];
  output[index] = 0.0;
  if (i >= count) { return; }
  let first = i - i % params.window;
  var sum = 0.0;
  for (var j = g * n + first; j < g * n + min(first + params.window, count); j++) { sum += norm[j] * norm[j]; }
  output[index] = norm[index] * norm[index] / max(sum, 1e-30);
}`,
  operations: ({ norm }, { window }) => norm.shape.reduce((a, b) => a * b, 1) * (2 * window + 3),
  ref({ norm }, { window }, out, lengths) {
    const [G = 0, n = 0] = norm.shape,
      { data } = norm;
    for (let g = 0; g < G; g++)
      for (let first = g * n, end = first + lengths[g]; first < end; first += window) {
        const next = Math.min(first + window, end);
        let sum = 0;
        for (let j = first; j < next; j++) sum += data[j] * data[j];
        for (let j = first; j < next; j++) out[j] = (data[j] * data[j]) / Math.max(sum, 1e-30);
      }
  },
});
