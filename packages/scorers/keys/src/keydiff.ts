import { keys, scorer } from '@kv/core';
import type { Scorer } from '@kv/core';

/**
 * KeyDiff: minus the cosine between a key and the mean direction of all keys of its head, so keys unlike the others stay.
 *
 * @remarks Park et al. 2025, arXiv:2504.15364. Scores in -1 .. 1 on KV rows `[G, n]`; a key of length 0 scores 0. Reads no
 * attention. O(G n d).
 */
export const keydiff = (): Scorer<'keydiff'> => scorer('keydiff', [keys], ({ ops, at, keys: k }) => {
  const length = ops.max(ops.norm(k), 1e-12);
  const anchor = ops.matmul(ops.div(1, length), k); // n times the mean direction, [G, d]
  const far = ops.max(ops.norm(ops.reshape(anchor, [at.kvHeads, 1, at.headDim])), 1e-12);
  return ops.div(ops.dot(anchor, k), ops.mul(ops.mul(length, far), -1));
});
