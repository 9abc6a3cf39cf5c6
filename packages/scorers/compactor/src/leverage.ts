import { checkNumber, gram, inverse, keys, positions, quadratic, rope, turn } from '@kv/core';
import { weigher } from '@kv/core/old';
import type { Weigher } from '@kv/core';

/**
 * Leverage scores of the keys before rotation: xᵀ (XᵀX + jitter I)^-1 x of every centred key x of a head, the share of
 * its own direction
 * that it alone accounts for.
 *
 * @remarks Chari and Van Durme 2025, arXiv:2507.08143 (Compactor), exact: kvpress sketches the d channels to 48 random
 * ones. Weights in
 * 0 .. 1 on KV rows `[G, n]`. One d x d matrix a head, O(G n d² + G d³); reads no attention.
 * @throws KvError if `jitter` is not positive.
 */
export function leverage({
  jitter = 0.01,
}: {
  /** Added to the diagonal of XᵀX. @defaultValue 0.01 */ readonly jitter?: number;
} = {}): Weigher<'leverage'> {
  checkNumber('leverage', 'jitter', jitter, 'a positive number', (x) => x > 0 && x < Infinity);
  return weigher(
    { name: 'leverage', options: { jitter } },
    [keys, rope, positions],
    ({ ops, at, keys: k, rope: model, positions: p }) => {
      const before = turn(
        ops,
        k,
        model,
        Uint32Array.from({ length: at.length }, (_, i) => i),
        p,
        true,
      );
      const x = ops.sub(before, ops.reduce('mean', before, 'slots'));
      const m = ops.kernel(gram, { x });
      return ops.max(0, ops.kernel(quadratic, { x, m: ops.kernel(inverse, { m }, { jitter }) }));
    },
  );
}
