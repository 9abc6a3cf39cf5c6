import { kernel, keys, number, positions, rope, weightScorer } from '@kv/core';
import { gram, inverse, keysBeforeRotation, quadratic } from '@kv/core/shared';

/**
 * Leverage scores of the keys before rotation: xᵀ (XᵀX + jitter I)^-1 x of every centred key x of a head, the share of
 * its own direction that no other key accounts for.
 *
 * @remarks Chari and Van Durme 2025, arXiv:2507.08143 (Compactor), computed exactly: kvpress sketches the d channels to
 * 48 random ones. At least a millionth of the trace of XᵀX is added, which f32 cannot tell from 0: fewer keys than
 * channels leave it singular. Weights in 0 .. 1 on KV rows `[G, n]`. One d x d matrix a head, O(G n d² + G d³); reads no
 * attention.
 */
export const leverage = weightScorer(
  'leverage',
  {
    source: 'Chari and Van Durme 2025, arXiv:2507.08143',
    says: 'Leverage scores of the keys before rotation.',
    options: {
      jitter: number(
        0.01,
        'Added to the diagonal of XᵀX, of whose trace a millionth is the least that f32 can tell from 0.',
        { above: 0 },
      ),
    },
    needs: [keys, rope, positions],
  },
  ({ ops, at, keys: k, rope: model, positions: p }, { jitter }) => {
    const before = keysBeforeRotation(ops, k, model, p, at.length);
    const x = { x: before, c: ops.reduce('mean', before, 'slots') };
    const products = ops.kernel(gram, { ...x, w: ops.fill(p, 1) });
    const m = ops.kernel(inverse, { m: ops.kernel(regular, { m: products }, { jitter }) }, { jitter });
    return ops.min(1, ops.max(0, ops.kernel(quadratic, { ...x, m })));
  },
);

/**
 * Adds to the diagonal of positive semidefinite matrices `[r, d, d]` what `jitter` lacks of a millionth of their trace.
 */
export const regular = kernel({
  id: 'regular',
  inputs: { m: 'f32' },
  params: { jitter: 'f32' },
  output: { shape: ({ m }) => m },
  wgsl: /* wgsl */ `
fn run(index: u32) {
  let d = m_shape.z; let at = index / (d * d) * d * d;
  output[index] = m[index];
  if ((index - at) % (d + 1u) != 0u) { return; }
  var trace = 0.0;
  for (var i = 0u; i < d; i++) { trace += m[at + i * (d + 1u)]; }
  output[index] += max(0.0, 1e-6 * trace - params.jitter);
}`,
  ref({ m }, { jitter }, out) {
    const [r = 0, d = 0] = m.shape;
    out.set(m.data);
    for (let at = 0; at < r * d * d; at += d * d) {
      let trace = 0;
      for (let i = 0; i < d; i++) trace += m.data[at + i * (d + 1)];
      for (let i = 0; i < d; i++) out[at + i * (d + 1)] += Math.max(0, 1e-6 * trace - jitter);
    }
  },
});
