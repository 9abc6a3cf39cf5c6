import { cadence, compose, mandatory, maybe, method, number, part, reduceHeads, weighted, withDefault } from '@kv/core';
import type { ResolvedOptions } from '@kv/core';
import { protectedPartition } from '@kv/allocators-protected-partition';
import { h2o } from '@kv/scorers-attention';
import { frequency } from '@kv/scorers-rarity';
import { learnedRank, learnRank, pension, recency, sponsorship, structure } from '@kv/scorers-sponsorship';
import { topK } from '@kv/selectors-top-k';
import { recompressed } from './common.ts';

/** Options of Transactional Attention: the weights of eq. 3, forced slots, and when it evicts. */
const transactional = {
  ...sponsorship.options,
  rank: maybe(
    part(
      learnedRank(),
      'TA-LearnRank, eq. 5: how surely each token is an anchor; they vouch as much, in place of `anchors`.',
    ),
  ),
  ...protectedPartition.options,
  sinks: withDefault(mandatory.options.sinks, 1),
  recent: withDefault(mandatory.options.recent, 2),
  beta: number(0.5, 'Weight of recency R.'),
  gamma: number(0.3, 'Weight of structure S.'),
  lambda: number(0.1, 'Weight of frequency F, which counts against a token.'),
  every: {
    ...cadence.options.every,
    says: 'An event every N generated tokens: 1 is algorithm 1, at most K after every token; left out, it evicts once, after the prompt.',
  },
};

type Transactional = ResolvedOptions<typeof transactional>;

/** Scorer of vouchers: all anchors vouch alike, or with `rank` by their confidence. */
const voucherOf = ({ reach, strength, decay, anchors, rank }: Transactional) =>
  rank === undefined ? sponsorship({ reach, strength, decay, anchors }) : learnRank({ reach, strength, decay, rank });
type Voucher = ReturnType<typeof voucherOf>;

/** Terms of the utility that read no attention, including the voucher. */
const plainTerms = ({ beta, gamma, lambda, anchors }: Transactional, voucher: Voucher) =>
  [
    [beta, recency()],
    [gamma, structure({ anchors })],
    [-lambda, frequency()],
    [1, voucher],
  ] as const;

/** Top-k by a utility, with protected slots for what anchors sponsor. */
const byUtility = (
  utility: ReturnType<typeof weighted>,
  voucher: Voucher,
  { sinks, recent, slots, every }: Transactional,
) =>
  recompressed(compose(utility, mandatory({ sinks, recent }), protectedPartition(voucher, { slots }), topK()), every);
/**
 * TA-Fast: u = 0.5 R + 0.3 S - 0.1 F + V, with K_p slots for what anchors sponsor, the first token and the last two.
 *
 * @remarks Transactional Attention, eq. 3, sections 3.3 and 3.4: TA-Fast-Regex, TA-Fast-Semantic, TA-Fast-Embedding and
 * TA-Learned by `anchors`, TA-LearnRank by `rank`; algorithm 1 with `every: 1`. Reads no attention.
 */
export const taFast = method(
  'taFast',
  {
    source: 'Basu 2026, arXiv:2604.11288, eq. 3',
    says: 'Values after anchors such as `password:` are sponsored.',
    options: transactional,
  },
  (o) => {
    const voucher = voucherOf(o);
    return byUtility(weighted(...plainTerms(o, voucher)), voucher, o);
  },
);

/**
 * Transactional Attention: u = A + 0.5 R + 0.3 S + 0.2 P - 0.1 F + V, with K_p slots for what anchors sponsor, the
 * first token and the last two.
 *
 * @remarks Basu 2026, eq. 1, section 3.3. A is accumulated attention, summed over the query heads of a KV head; P's
 * rate is ours, the paper states none.
 */
export const fullTa = method(
  'fullTa',
  {
    source: 'Basu 2026, arXiv:2604.11288, eq. 1',
    says: 'Attention, recency, structure, past attention and frequency, together with the vouchers.',
    options: {
      ...transactional,
      ...pension.options,
      alpha: number(1, 'Weight of accumulated attention A.'),
      delta: number(0.2, 'Weight of past attention P.'),
    },
  },
  ({ alpha: weight, delta, rate, ...o }) => {
    const voucher = voucherOf(o),
      attention = compose(h2o({ recent: 0 }), reduceHeads({ kind: 'sum' })),
      [recent, formed, frequent, vouching] = plainTerms(o, voucher);
    return byUtility(
      weighted([weight, attention], recent, formed, [delta, pension({ rate })], frequent, vouching),
      voucher,
      o,
    );
  },
);
