import { compose, mandatory, weighted } from '@kv/core';
import type { Policy } from '@kv/core';
import { protectedPartition } from '@kv/allocators-protected-partition';
import { frequency } from '@kv/scorers-rarity';
import { recency } from '@kv/scorers-sponsorship';
import { topK } from '@kv/selectors-top-k';
import { sponsorship, structure } from './anchors.ts';
import type { Anchors } from './anchors.ts';

export interface TaFastOptions {
  /** Tokens after an anchor that it sponsors, L. @defaultValue 6 */
  readonly reach?: number;
  /** Protected slots K_p of the budget. @defaultValue 4 */
  readonly slots?: number;
  /** Sponsor budget of an anchor; 0 sponsors nothing. @defaultValue 15 */
  readonly strength?: number;
  /**
   * What finds anchors: explicit keys, communication verbs too, the meaning of input embeddings, or a detector trained
   * on hidden states. @defaultValue 'regex'
   */
  readonly anchors?: Anchors;
}

/**
 * TA-Fast: u = 0.5 R + 0.3 S - 0.1 F + V, with K_p slots for what anchors sponsor, the first token and the last two.
 *
 * @remarks Transactional Attention, eq. 3, sections 3.3 and 3.4: TA-Fast-Regex, TA-Fast-Semantic, TA-Fast-Embedding and
 * TA-Learned by `anchors`. Reads no attention.
 */
export function taFast({ reach = 6, slots = 4, strength = 15, anchors = 'regex' }: TaFastOptions = {}): Policy {
  const voucher = sponsorship({ reach, strength, anchors });
  const utility = weighted([0.5, recency()], [0.3, structure({ anchors })], [-0.1, frequency()], [1, voucher]);
  return compose(utility, mandatory({ sinks: 1, recent: 2 }), protectedPartition(voucher, { slots }), topK());
}
