import { checkNumber, isPositiveInteger, keys, KvError, positions, queries, values } from '@kv/core';
import { weigher } from '@kv/core/old';
import type { Weigher } from '@kv/core';
import { chunkLogSum, chunkMass } from './chunk-mass.ts';

export interface NoncausalOptions {
  /** Positions in a chunk. @defaultValue 256 */
  readonly chunk?: number;
  /** Queries that a layer keeps: the longest prompt that can be scored. @defaultValue 4096 */
  readonly window?: number;
  /** Odd width of the mean over neighbouring slots; 1 for none. @defaultValue 3 */
  readonly kernel?: number;
}

/**
 * Attention within chunks without causality, softmax(Q Kᵀ) without 1/√d, summed over the queries of the chunk, mean
 * over the head group, times |v|:
 * what a key would receive if its chunk could look back on it.
 *
 * @remarks Chari and Van Durme 2025, arXiv:2507.08143 (Compactor), as kvpress has it, but with the last chunk's padding
 * left out.
 * Weights on KV rows `[G, n]`. Needs the queries of the whole sequence: a ring of `window · H · d` floats a layer. O(H
 * n chunk d).
 * @throws KvError if an option is not a positive whole number (`kernel` odd), or the sequence is longer than `window`.
 */
export function noncausal({ chunk = 256, window = 4096, kernel = 3 }: NoncausalOptions = {}): Weigher<'noncausal'> {
  checkNumber('noncausal', 'chunk', chunk, 'a positive whole number of positions', isPositiveInteger);
  checkNumber('noncausal', 'window', window, 'a positive whole number of queries', isPositiveInteger);
  checkNumber(
    'noncausal',
    'kernel',
    kernel,
    'an odd positive whole number',
    (k) => isPositiveInteger(k) && k % 2 === 1,
  );
  return weigher(
    { name: 'noncausal', options: { chunk, window, kernel }, whole: true },
    [queries(window), keys, values, positions],
    ({ ops, at, queries: q, keys: k, values: v, positions: p }) => {
      const kept = q.shape[1],
        first = Math.max(0, at.length - kept);
      if (first > 0)
        throw new KvError(
          'noncausal',
          `reads the queries of all ${at.length} tokens, got the last ${kept}: expected a window of at least ${at.length}`,
        );
      const own = ops.take(
        q,
        ops.from({
          data: Uint32Array.from({ length: at.length }, (_, i) => kept - at.length + i),
          shape: [1, at.length],
        }),
      );
      const inputs = { queries: own, keys: k, positions: p },
        params = { chunk, first };
      const mass = ops.kernel(chunkMass, { ...inputs, sums: ops.kernel(chunkLogSum, inputs, params) }, params),
        size = ops.norm(v);
      return ops.pool(ops.mul(ops.groupRows('mean', mass, at.kvHeads), size), { kernel, kind: 'mean' });
    },
  );
}
