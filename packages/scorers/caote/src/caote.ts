import { values } from '@kv/core';
import { weightTransform } from '@kv/core/old';
import type { WeightTransform } from '@kv/core';

export interface CaoteOptions {
  /** Eq. 7 as printed squares the norm; eq. 6 and Theorem A.2 do not. @defaultValue false */
  readonly square?: boolean;
}

/**
 * CAOTE: the exact change of the attention output when token j alone is evicted, c_j = h_j / (1 - h_j) * |o - v_j|.
 *
 * @remarks Goel et al. 2025, arXiv:2504.14051, eq. 6 and Theorem A.2. Weights `[rows, n]` to weights of the same rows;
 * query rows
 * read the values of their KV head. O(rows n d).
 */
export const caote = ({ square = false }: CaoteOptions = {}): WeightTransform<'caote'> =>
  weightTransform(
    { name: 'caote', options: { square: square || undefined } },
    [values],
    ({ ops, scores, values: v }) => {
      const h = ops.simplex(scores); // [rows, n], each row sums to 1
      const o = ops.matmul(h, v); // [rows, d]
      const error = ops.distance(o, v); // [rows, n]
      return ops.mul(ops.odds(h), square ? ops.mul(error, error) : error);
    },
  );
