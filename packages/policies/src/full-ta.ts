import { compose, mandatory, reduceHeads, weighted } from '@kv/core';
import type { Policy } from '@kv/core';
import { protectedPartition } from '@kv/allocators-protected-partition';
import { h2o } from '@kv/scorers-attention';
import { frequency } from '@kv/scorers-rarity';
import { pension, recency } from '@kv/scorers-sponsorship';
import { topK } from '@kv/selectors-top-k';
import { sponsorship, structure } from './anchors.ts';
import type { TaFastOptions } from './ta-fast.ts';

export interface FullTaOptions extends TaFastOptions {
  /** Rate of the pension, the moving average of past attention. @defaultValue 0.9 */
  readonly rate?: number;
}

/**
 * Transactional Attention: u = A + 0.5 R + 0.3 S + 0.2 P - 0.1 F + V, with K_p slots for what anchors sponsor, the
 * first token and the last two.
 *
 * @remarks Basu 2026, eq. 1, section 3.3. A is accumulated attention, summed over the query heads of a KV head; P's
 * rate is ours, the paper states none.
 */
export function fullTa({
  reach = 6,
  slots = 4,
  strength = 15,
  rate = 0.9,
  anchors = 'regex',
}: FullTaOptions = {}): Policy {
  const voucher = sponsorship({ reach, strength, anchors });
  const utility = weighted(
    [1, compose(h2o({ recent: 0 }), reduceHeads({ kind: 'sum' }))],
    [0.5, recency()],
    [0.3, structure({ anchors })],
    [0.2, pension({ rate })],
    [-0.1, frequency()],
    [1, voucher],
  );
  return compose(utility, mandatory({ sinks: 1, recent: 2 }), protectedPartition(voucher, { slots }), topK());
}
