import { kernel, keys, number, weightScorer } from '@kv/core';
import { dotWith, range } from '@kv/core/shared';

/** Slots that all of a row are compared with at once; most slots meet a near one among the first. */
const BLOCK = 16;

/**
 * For every vector of a row, the last other one with a cosine above `near`, or slot 0: x `[G, n, d]` and its inverse
 * lengths `[G, n]` to u32 `[G, n]`.
 */
export const lastNear = kernel({
  id: 'last-near',
  inputs: { x: 'f32', inverse: 'f32' },
  params: { near: 'f32' },
  ragged: 'x',
  output: { dtype: 'u32', shape: ({ x }) => [x[0], x[1]] },
  wgsl: /* wgsl */ `
fn run(index: u32) {
  let n = x_shape.y; let d = x_shape.z; let g = index / n; let i = index % n;
  output[index] = 0u;
  if (i >= x_lengths[g]) { return; }
  for (var j = x_lengths[g]; j > 0u; j--) {
    if (j - 1u == i) { continue; }
    var s = 0.0;
    for (var c = 0u; c < d; c++) { s += x[index * d + c] * x[(g * n + j - 1u) * d + c]; }
    if (s * inverse[index] * inverse[g * n + j - 1u] > params.near) { output[index] = j - 1u; return; }
  }
}`,
  operations: ({ x }) => {
    const [G = 0, n = 0, d = 0] = x.shape;
    return G * n * n * (2 * d + 3);
  },
  ref({ x, inverse }, { near }, out, lengths, { multiply }) {
    const [G = 0, n = 0, d = 0] = x.shape,
      products = new Float32Array(n * BLOCK),
      still = new Uint32Array(n);
    for (let g = 0; g < G; g++) {
      const own = x.data.subarray(g * n * d, (g * n + lengths[g]) * d),
        by = inverse.data.subarray(g * n, (g + 1) * n);
      let open = range(0, lengths[g]); // slots without a near one so far
      // blocks of the others, from the last one back; blocks grow as fewer slots are open
      for (let end = lengths[g], from = end; end > 0 && open.length > 0; end = from) {
        from = Math.max(0, end - BLOCK * Math.floor(n / open.length));
        const size = end - from;
        multiply(vectorsOf(own, d, open), own.subarray(from * d, end * d), d, products.subarray(0, open.length * size));
        let left = 0;
        for (let r = 0; r < open.length; r++) {
          const i = open[r],
            row = r * size - from;
          let j = end - 1;
          while (j >= from && (j === i || !(products[row + j] * by[i] * by[j] > near))) j--;
          if (j < from) still[left++] = i;
          else out[g * n + i] = j;
        }
        open = still.slice(0, left);
      }
    }
  },
});

/** Returns the vectors of the given slots, in their order. */
function vectorsOf(x: Float32Array, d: number, slots: Uint32Array): Float32Array {
  if (slots.length * d === x.length) return x;
  const out = new Float32Array(slots.length * d);
  for (let r = 0; r < slots.length; r++) out.set(x.subarray(slots[r] * d, (slots[r] + 1) * d), r * d);
  return out;
}

/**
 * R-KV's redundancy: softmax over the slots of a key's mean cosine with the others, without each key's last
 * near-duplicate, so that of similar keys the newest counts as the least redundant.
 *
 * @remarks Cai et al. 2025, arXiv:2505.24133. Weights on KV rows `[G, n]`; high = redundant, so it enters a sum with a
 * negative weight. No n x n matrix: the mean cosine is one inner product with the sum of the unit keys. Finding
 * near-duplicates takes O(G n² d) at worst, and memory O(n).
 */
export const redundancy = weightScorer(
  'redundancy',
  {
    source: 'Cai et al. 2025, arXiv:2505.24133',
    says: 'How alike a key is to the others; high is redundant.',
    options: {
      near: number(0.5, 'Cosine above which two keys are near-duplicates.', {
        least: -1,
        most: 1,
        want: 'a cosine from -1 to 1',
      }),
    },
    needs: [keys],
  },
  ({ ops, at, keys: k }, { near }) => {
    const length = ops.norm(k);
    const one = ops.fill(length, 1);
    const inverse = ops.div(1, ops.add(length, 1e-8));
    const size = ops.mul(length, inverse);
    const last = ops.kernel(lastNear, { x: k, inverse }, { near });
    const slot = ops.from({ data: range(0, at.slots), shape: [1, at.slots] });
    const alike = ops.mul(ops.kernel(dotWith, { x: k, index: last }), ops.mul(inverse, ops.take(inverse, last)));
    const cosine = ops.where(ops.zip('equal', last, slot), 0, alike);
    const others = ops.sub(ops.mul(inverse, ops.dot(ops.matmul(inverse, k), k)), ops.mul(size, size));
    const open = ops.sub(others, ops.groupSlots('sum', cosine, last, at.slots));
    return ops.softmax(ops.div(open, ops.sum(one)));
  },
);
