import { as, kernel, keys, oneOf, scorer, values } from '@kv/core';

/** Slots that one workgroup sums; a shorter vector counts as this long. */
const SPAN = 256,
  SHORTEST = 1e-12;
const spansOf = (slots: number): number => Math.max(1, Math.ceil(slots / SPAN));

/**
 * KeyDiff: minus the cosine between a key and the mean direction of all keys of its head, so keys unlike the others
 * stay.
 *
 * `of: 'values'` takes the cosines of values instead: with the factor -λ in a weighted sum it is the prior λ cos(V,
 * mean direction of V) that the paper of `alpha` tried and rejected.
 *
 * @remarks Park et al. 2025, arXiv:2504.15364. Scores in -1 .. 1 on KV rows `[G, n]`; a key of length 0 scores 0. Reads
 * no attention, and keys twice. O(G n d).
 */
export const keydiff = scorer(
  'keydiff',
  {
    source: 'Park et al. 2025, arXiv:2504.15364',
    says: "Minus the cosine of a key to the mean direction of its head's keys.",
    options: { of: oneOf(['keys', 'values'], 'keys', 'Whose directions.') },
    needs: ({ of }) => [as('vectors', of === 'values' ? values : keys)],
  },
  ({ ops, at: { kvHeads: G, slots: n, headDim: d }, vectors: k }) => {
    // n times the mean direction, [G, 1, d]
    const anchor = ops.sum(ops.reshape(ops.kernel(unitSums, { x: k }), [G, spansOf(n), d]));
    return ops.kernel(minusCosine, { x: k, anchor });
  },
);

/** Σ x / |x| over each span of 256 vectors: `[G, n, d]` to `[G ⌈n / 256⌉, d]` (at least one span a row). */
export const unitSums = kernel({
  id: 'unit-sums',
  inputs: { x: 'f32' },
  ragged: 'x',
  per: 'group',
  output: { dense: true, shape: ({ x }) => [x[0] * spansOf(x[1]), x[2]] },
  wgsl: /* wgsl */ `
var<workgroup> inverse: array<f32, ${SPAN}>; // of lengths
fn run(row: u32, lane: u32) {
  let n = x_shape.y; let d = x_shape.z; let spans = max(1u, (n + ${SPAN - 1}u) / ${SPAN}u);
  let g = row / spans; let first = row % spans * ${SPAN}u; let at = (g * n + first) * d;
  let count = min(${SPAN}u, max(x_lengths[g], first) - first);
  for (var i = lane; i < count; i += THREADS) {
    var square = 0.0;
    for (var c = 0u; c < d; c++) { let v = x[at + i * d + c]; square += v * v; }
    inverse[i] = 1.0 / max(sqrt(square), ${SHORTEST});
  }
  workgroupBarrier();
  for (var c = lane; c < d; c += THREADS) {
    var sum = 0.0;
    for (var i = 0u; i < count; i++) { sum += x[at + i * d + c] * inverse[i]; }
    output[row * d + c] = sum;
  }
}`,
  operations: ({ x }) => 4 * x.shape.reduce((a, b) => a * b, 1),
  ref({ x }, _params, out, lengths, { norms, mix }) {
    const [G = 0, n = 0, d = 0] = x.shape,
      spans = spansOf(n),
      inverse = new Float32Array(SPAN);
    for (let row = 0; row < G * spans; row++) {
      const g = Math.floor(row / spans),
        first = (row % spans) * SPAN,
        count = Math.max(0, Math.min(lengths[g], first + SPAN) - first),
        own = x.data.subarray((g * n + first) * d, (g * n + first + count) * d);
      norms(own, d, inverse);
      for (let i = 0; i < count; i++) inverse[i] = 1 / Math.max(inverse[i], SHORTEST);
      mix(inverse.subarray(0, count), own, d, (out as Float32Array).subarray(row * d, (row + 1) * d));
    }
  },
});

/** Minus the cosine between every vector and its row's anchor: x `[G, n, d]`, anchor `[G, 1, d]`, to `[G, n]`. */
export const minusCosine = kernel({
  id: 'minus-cosine',
  inputs: { x: 'f32', anchor: 'f32' },
  ragged: 'x',
  output: { shape: ({ x }) => [x[0], x[1]] },
  wgsl: /* wgsl */ `
fn run(index: u32) {
  let n = x_shape.y; let d = x_shape.z; let g = index / n;
  output[index] = 0.0;
  if (index % n >= x_lengths[g]) { return; }
  var along = 0.0; var square = 0.0; var far = 0.0;
  for (var c = 0u; c < d; c++) { let v = x[index * d + c]; let a = anchor[g * d + c]; along += v * a; square += v * v; far += a * a; }
  output[index] = -along / (max(sqrt(square), ${SHORTEST}) * max(sqrt(far), ${SHORTEST}));
}`,
  operations: ({ x }) => 6 * x.shape.reduce((a, b) => a * b, 1),
  ref({ x, anchor }, _params, out, lengths, { dots, norms }) {
    const [G = 0, n = 0, d = 0] = x.shape,
      length = new Float32Array(n),
      far = new Float32Array(1);
    for (let g = 0; g < G; g++) {
      const count = lengths[g],
        own = x.data.subarray(g * n * d, (g * n + count) * d),
        to = anchor.data.subarray(g * d, (g + 1) * d),
        along = (out as Float32Array).subarray(g * n, g * n + count);
      dots(to, own, d, along);
      norms(own, d, length);
      norms(to, d, far);
      for (let i = 0; i < count; i++)
        along[i] = -along[i] / (Math.max(length[i], SHORTEST) * Math.max(far[0], SHORTEST));
    }
  },
});
