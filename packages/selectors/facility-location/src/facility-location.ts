import { as, keys, oneOf, values, weightSelector } from '@kv/core';
import type { Ops, Tensor } from '@kv/core';
import { firstGains, greedyCover } from './greedy.ts';

/** Returns vectors `[G, n, d]` with unit length, scaled first so that no square overflows f32; zero vectors stay. */
function unitVectors(ops: Ops, x: Tensor): Tensor {
  const largest = ops.reduce('max', ops.map('abs', x), 'channels'); // [G, n]
  const scaled = ops.scale(x, ops.div(1, ops.max(largest, 1e-37)));
  return ops.scale(scaled, ops.div(1, ops.max(ops.norm(scaled), 1e-30)));
}

/**
 * Facility location: the set of slots that covers all slots best, f(S) = Σ_i w_i max over j in S of max(0, cos(x_i,
 * x_j)), with the weights w and the values or keys x of the KV head.
 *
 * @remarks Monotone and submodular, so picking the slot that adds most, one after the other, reaches at least 1 - 1/e
 * of the best f (Nemhauser, Wolsey and Fisher 1978, doi:10.1007/BF01588971); evaluated lazily, after Minoux 1978, with
 * the same picks. Weights `[H | G | 1, n]`, under GQA the mean of a group. A banned slot is covered like any other and
 * never kept; forced slots are picked first; ties to the lower slot; nested. A zero vector covers nothing and is
 * covered by nothing. O(n^2 d) a row for the first pick, O(n d) for each later evaluation; no n x n matrix.
 */
export const facilityLocation = weightSelector(
  'facilityLocation',
  {
    source: 'Nemhauser, Wolsey and Fisher 1978, doi:10.1007/BF01588971',
    says: 'Slots that cover those of large weight best, by the cosine of their values or keys.',
    options: { of: oneOf(['values', 'keys'], 'values', 'What of each slot is covered: its value or its key.') },
    needs: ({ of }) => [as('vectors', of === 'keys' ? keys : values)],
  },
  ({ ops, scores, vectors: x, budgets, active, forced, banned }) => {
    const rows = budgets.shape[0];
    const weights = ops.broadcast(scores, rows); // [rows, n]
    const mask = ops.where(forced, 1, ops.sub(ops.fill(weights, 0), banned));
    const wanted = active ? ops.mul(budgets, active) : budgets;
    const vectors = unitVectors(ops, x);
    const gains = ops.reshape(ops.kernel(firstGains, { weights, vectors, budgets: wanted }), weights.shape);
    const picked = ops.kernel(greedyCover, { weights, vectors, gains, mask, budgets: wanted }); // [rows, n, 2]
    return ops.select(ops.reduce('max', picked, 'channels'), budgets, { forced, banned, active });
  },
);
