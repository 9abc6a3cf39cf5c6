import { positions, tokens } from '@kv/core';
import { weigher } from '@kv/core/old';
import type { Weigher } from '@kv/core';
import { counts } from './counts.ts';

/**
 * Frequency, F = c / n: the share of the present context that a slot's token id makes up.
 *
 * @remarks The penalty of Transactional Attention, eq. 1 and 3, which leaves F open ("penalizes frequent tokens"); the
 * share is ours.
 * Weights in (0, 1] on KV rows `[G, n]`; evicted tokens count, as in `rarity`.
 */
export const frequency = (): Weigher<'frequency'> =>
  weigher('frequency', [tokens, positions], ({ ops, at, tokens: { ids }, positions: p }) =>
    ops.div(ops.take(ops.from(counts(ids, at.length)), p), at.length),
  );
