import { kernel, keys, queries, scorer } from '@kv/core';
import { loopBytes } from './query-key-products-loop.ts';

/**
 * Inner products of the newest query with every key, divided by sqrt(d). Rows that are not active read no key and stay
 * 0.
 */
export const activeDots = kernel({
  id: 'active-dots',
  inputs: { queries: 'f32', keys: 'f32', wanted: 'f32' },
  ragged: 'keys',
  inPlace: ['keys'],
  output: { shape: ({ queries: q, keys: k }) => [q[0], k[1]] },
  wgsl: /* wgsl */ `
fn run(index: u32) {
  let n = keys_shape.y; let d = keys_shape.z;
  let h = index / n;
  let g = h / (queries_shape.x / keys_shape.x);
  var sum = 0.0;
  if (wanted[h] != 0.0 && index % n < keys_lengths[g]) {
    for (var c = 0u; c < d; c++) { sum += queries[(h * queries_shape.y + queries_shape.y - 1u) * d + c] * keys[(g * n + index % n) * d + c]; }
  }
  output[index] = sum / sqrt(f32(d));
}`,
  ref({ queries: q, keys: k, wanted }, _, out, lengths, products) {
    const [H = 0, w = 0, d = 0] = q.shape,
      [G = 1, n = 0] = k.shape,
      { apart = n * d } = k;
    for (let h = 0; h < H; h++) {
      const g = Math.floor((h * G) / H);
      if (wanted.data[h] === 0) continue;
      const own = out.subarray(h * n, h * n + lengths[g]) as Float32Array,
        vectors = k.data.subarray(g * apart, g * apart + lengths[g] * d);
      products.dots(q.data.subarray((h * w + w - 1) * d, (h + 1) * w * d), vectors, d, own);
      const root = Math.sqrt(d);
      for (let i = 0; i < own.length; i++) own[i] /= root;
    }
  },
});

/**
 * Exact scores q·k / sqrt(d) of the newest query: the exact top-k oracle inside a view.
 *
 * @remarks PrHS, section IV-A. Scores on query rows `[H, n]`. O(H n d); rows that a wrapping piece marks inactive read
 * no key.
 */
export const queryKeyProducts = scorer(
  'queryKeyProducts',
  {
    source: 'PrHS (CIS, PSAW, ETF), section IV-A',
    says: 'Inner products of the newest query with every key.',
    needs: [queries(1), keys],
    loop: () => ({ bytes: loopBytes, reads: ({ slots, headDim }) => slots * headDim }),
  },
  ({ ops, at, queries: q, keys: k, active }) => {
    const all = ops.from({ data: new Float32Array(at.queryHeads).fill(1), shape: [at.queryHeads, 1] });
    return ops.kernel(activeDots, { queries: q, keys: k, wanted: active ?? all });
  },
);
