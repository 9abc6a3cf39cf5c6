import { keys, number, positions, rope, weightScorer } from '@kv/core';
import { gram, inverse, keysBeforeRotation, quadratic } from '@kv/core/shared';

/**
 * Leverage scores of the keys before rotation: xᵀ (XᵀX + jitter I)^-1 x of every centred key x of a head, the share of
 * its own direction that no other key accounts for.
 *
 * @remarks Chari and Van Durme 2025, arXiv:2507.08143 (Compactor), computed exactly: kvpress sketches the d channels to
 * 48 random ones. Weights in 0 .. 1 on KV rows `[G, n]`. One d x d matrix a head, O(G n d² + G d³); reads no attention.
 */
export const leverage = weightScorer(
  'leverage',
  {
    source: 'Chari and Van Durme 2025, arXiv:2507.08143',
    says: 'Leverage scores of the keys before rotation.',
    options: { jitter: number(0.01, 'Added to the diagonal of XᵀX.', { above: 0 }) },
    needs: [keys, rope, positions],
  },
  ({ ops, at, keys: k, rope: model, positions: p }, { jitter }) => {
    const before = keysBeforeRotation(ops, k, model, p, at.length);
    const x = { x: before, c: ops.reduce('mean', before, 'slots') };
    const m = ops.kernel(inverse, { m: ops.kernel(gram, { ...x, w: ops.fill(p, 1) }) }, { jitter });
    return ops.max(0, ops.kernel(quadratic, { ...x, m }));
  },
);
