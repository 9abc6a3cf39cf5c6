import { number, positions, weightScorer } from '@kv/core';
import { uniformHash } from '@kv/core/shared';

/**
 * Random eviction: a hash of (seed, layer, KV head, position) in [0, 1), the baseline that every method must beat.
 *
 * @remarks Weights on KV rows `[G, n]`. A hash and not a generator, so a slot keeps its number over events, block sizes
 * and backends.
 */
export const random = weightScorer(
  'random',
  {
    source: 'the floor for comparison',
    says: 'A hash of seed, layer, KV head and position.',
    options: {
      seed: number(0, 'Another seed gives other numbers.', {
        least: 0,
        below: 2 ** 32,
        whole: true,
        want: 'a whole number below 2^32',
      }),
    },
    needs: [positions],
  },
  ({ ops, at, positions: p }, { seed }) => ops.kernel(uniformHash, { positions: p }, { seed, layer: at.layer }),
);
