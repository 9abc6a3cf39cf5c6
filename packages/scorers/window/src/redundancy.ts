import { kernel, keys, number, weigher } from '@kv/core';
import { dotWith, plainProducts } from '@kv/core/shared';

/** Slots that are compared with each other together. */
const BLOCK = 64;

/** For every unit vector of a row the last other one of cosine above `near`, or slot 0: `[G, n, d]` to u32 `[G, n]`. */
export const lastNear = kernel({
  id: 'last-near',
  inputs: { x: 'f32' },
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
    if (s > params.near) { output[index] = j - 1u; return; }
  }
}`,
  operations: ({ x }) => {
    const [G = 0, n = 0, d = 0] = x.shape;
    return G * n * n * (2 * d + 1);
  },
  ref({ x }, { near }, out, lengths, { multiply } = plainProducts) {
    const [G = 0, n = 0, d = 0] = x.shape,
      cosines = new Float32Array(BLOCK * BLOCK);
    for (let g = 0; g < G; g++) {
      const own = x.data.subarray(g * n * d, (g * n + lengths[g]) * d),
        some = (first: number, end: number): Float32Array => own.subarray(first * d, end * d);
      for (let first = 0; first < lengths[g]; first += BLOCK) {
        const count = Math.min(BLOCK, lengths[g] - first),
          open = new Set(Array.from({ length: count }, (_, i) => i));
        // blocks of the others from the last one on, until every slot has met one that is near
        for (let end = lengths[g]; end > 0 && open.size > 0; end -= BLOCK) {
          const from = Math.max(0, end - BLOCK);
          multiply(some(first, first + count), some(from, end), d, cosines);
          for (const i of open) {
            let j = end - 1;
            while (j >= from && (j === first + i || !(cosines[i * (end - from) + j - from] > near))) j--;
            if (j < from) continue;
            out[g * n + first + i] = j;
            open.delete(i);
          }
        }
      }
    }
  },
});

/**
 * R-KV's redundancy: softmax over the slots of the mean cosine that a key has with the others, each key's last
 * near-duplicate left out, so that of keys alike the newest counts as the least redundant.
 *
 * @remarks Cai et al. 2025, arXiv:2505.24133. Weights on KV rows `[G, n]`; high = redundant, so it enters a sum with a
 * negative weight. No n x n matrix: the mean cosine is one inner product with the sum of the unit keys. Finding
 * near-duplicates takes O(G n² d) at worst, and memory O(n).
 */
export const redundancy = weigher(
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
    const unit = ops.scale(k, inverse);
    const size = ops.mul(length, inverse);
    const last = ops.kernel(lastNear, { x: unit }, { near });
    const slot = ops.from({ data: Float32Array.from({ length: at.slots }, (_, i) => i), shape: [1, at.slots] });
    const cosine = ops.where(ops.zip('equal', last, slot), 0, ops.kernel(dotWith, { x: unit, index: last }));
    const others = ops.sub(ops.dot(ops.matmul(one, unit), unit), ops.mul(size, size));
    const open = ops.sub(others, ops.groupSlots('sum', cosine, last, at.slots));
    return ops.softmax(ops.div(open, ops.sum(one)));
  },
);
