import { count, keys, KvError, odd, positions, queries, values, weightScorer } from '@kv/core';
import { range } from '@kv/core/shared';
import { chunkMass, fromChunks } from './chunk-mass.ts';

/**
 * Attention within chunks without the causal mask, softmax(Q Kᵀ) without 1/√d, summed over the queries of the chunk,
 * mean over the head group, times |v|: what a key would receive if all queries of its chunk could see it.
 *
 * @remarks Chari and Van Durme 2025, arXiv:2507.08143 (Compactor), as in kvpress, but without the padding of the last
 * chunk. Weights on KV rows `[G, n]`. Needs the queries of the whole sequence: a ring of `window · H · d` floats a
 * layer. O(H n chunk d).
 * @throws KvError in an event where the sequence is longer than `window`.
 */
export const noncausalAttention = weightScorer(
  'noncausalAttention',
  {
    source: 'Chari and Van Durme 2025, arXiv:2507.08143',
    says: 'Attention within chunks without causality.',
    options: {
      chunk: count(256, 'positions', 'Positions in a chunk.'),
      window: count(4096, 'queries', 'Queries that a layer keeps: the longest prompt that can be scored.'),
      kernel: odd(3, 'Width of the mean over neighbouring slots; 1 for none.'),
    },
    needs: ({ window }) => [queries(window), keys, values, positions],
    needsFullPrompt: true,
  },
  ({ ops, at, queries: q, keys: k, values: v, positions: p }, { kernel, ...options }) => {
    const chunk = Math.min(options.chunk, at.length); // a longer chunk would be the whole sequence too
    const kept = q.shape[1];
    if (at.length > kept)
      throw new KvError(
        'noncausalAttention',
        `reads the queries of all ${at.length} tokens, got the last ${kept}: expected a window of at least ${at.length}`,
      );
    const places = range(kept - at.length, at.length);
    const all = kept === at.length ? q : ops.take(q, ops.from({ data: places, shape: [1, at.length] }));
    const rows = ops.kernel(chunkMass, { queries: all, keys: k, positions: p }, { chunk });
    const each = ops.kernel(
      fromChunks,
      { rows: ops.reshape(rows, [at.queryHeads, (rows.shape[0] * chunk) / at.queryHeads]), positions: p },
      { chunk },
    );
    const mass = ops.groupRows('mean', each, at.kvHeads);
    return ops.pool(ops.mul(mass, ops.norm(v)), { kernel, kind: 'mean' });
  },
);
