import { cadence, compose, mandatory, maybe, method, number, part, reduceHeads, weighted, withDefault } from '@kv/core';
import type { AnyScorer, ResolvedOptions } from '@kv/core';
import { protectedPartition } from '@kv/allocators-protected-partition';
import { h2o } from '@kv/scorers-attention';
import { frequency } from '@kv/scorers-rarity';
import {
  details,
  learnedRank,
  learnRank,
  pension,
  recency,
  regex,
  sponsorship,
  structure,
} from '@kv/scorers-sponsorship';
import { topK } from '@kv/selectors-top-k';
import { recompressed } from './common.ts';

/** Options of Transactional Attention: the weights of eq. 3, forced slots, and when it evicts. */
const transactional = {
  ...sponsorship.options,
  anchors: maybe(sponsorship.options.anchors, "the paper's `regex`; with `reach=value` `details`"),
  rank: maybe(
    part(
      learnedRank(),
      'TA-LearnRank, eq. 5: how surely each token is an anchor; they vouch as much, in place of `anchors`, which S still counts.',
    ),
  ),
  slots: maybe(
    protectedPartition.options.slots,
    "the paper's 4; with `reach=value` 0.75, three quarters of the budget",
  ),
  sinks: withDefault(mandatory.options.sinks, 1),
  recent: withDefault(mandatory.options.recent, 2),
  beta: number(0.5, 'Weight of recency R.'),
  gamma: maybe(number(0.3, 'Weight of structure S.'), "the paper's 0.3; with `reach=value` 0"),
  lambda: number(0.1, 'Weight of frequency F, which counts against a token.'),
  every: {
    ...cadence.options.every,
    says: 'An event every N generated tokens: 1 is algorithm 1, at most K after every token; left out, it evicts once, after the prompt.',
  },
};

type Transactional = ResolvedOptions<typeof transactional>;
type Term = readonly [weight: number, scorer: AnyScorer];

/** Returns the options with what `reach` decides: the paper's, or those of whole values. */
function settled(o: Transactional) {
  const whole = o.reach === 'value';
  return {
    ...o,
    whole,
    anchors: o.anchors ?? (whole ? details() : regex()),
    slots: o.slots ?? (whole ? 0.75 : 4),
    gamma: o.gamma ?? (whole ? 0 : 0.3),
  };
}
type Settled = ReturnType<typeof settled>;

/** Scorer of vouchers: all anchors vouch alike, or with `rank` by their confidence. */
const voucherOf = ({ reach, most, lead, strength, decay, anchors, rank }: Settled) =>
  rank === undefined
    ? sponsorship({ reach, most, lead, strength, decay, anchors })
    : learnRank({ reach, most, lead, strength, decay, rank });
type Voucher = ReturnType<typeof voucherOf>;

/**
 * Terms of the utility that read no attention, including the voucher; whole values are kept by their protected slots
 * alone, so that no more of them than `slots` push out what is recent.
 */
const plainTerms = ({ beta, gamma, lambda, anchors, whole }: Settled, voucher: Voucher): readonly Term[] => [
  [beta, recency()],
  ...(whole && gamma === 0 ? [] : [[gamma, structure({ anchors })] as const]),
  [-lambda, frequency()],
  ...(whole ? [] : [[1, voucher] as const]),
];

/** Top-k by a utility, with protected slots for what anchors sponsor. */
const byUtility = (
  utility: ReturnType<typeof weighted>,
  voucher: Voucher,
  { sinks, recent, slots, every, whole }: Settled,
) =>
  recompressed(
    compose(utility, mandatory({ sinks, recent }), protectedPartition(voucher, { slots, whole }), topK()),
    every,
  );
/**
 * TA-Fast, by default with whole values: credentials, numbers of orders and ids take up to three quarters of the budget,
 * each whole and evenly; the first token and the last two stay, and the rest goes by u = 0.5 R - 0.1 F. With `reach: 6`
 * it is the paper's: u = 0.5 R + 0.3 S - 0.1 F + V, with K_p slots for the six tokens after an explicit key, V_j = Σ B_i
 * 0.8^(j - i).
 *
 * @remarks Transactional Attention, eq. 3, sections 3.3 and 3.4: TA-Fast-Regex, TA-Fast-Semantic, TA-Fast-Embedding and
 * TA-Learned by `anchors`, TA-LearnRank by `rank`; algorithm 1 with `every: 1`. Reads no attention. Whole values depart
 * from it: six tokens are the head of most credentials, and the model makes up the rest; a budget that decays by 0.9 a
 * token is gone before a conversation ends; its four patterns find no order number.
 */
export const taFast = method(
  'taFast',
  {
    source: 'Basu 2026, arXiv:2604.11288, eq. 3',
    says: 'Credentials, order numbers and ids stay whole; the rest goes by how recent it is.',
    options: { ...transactional, reach: withDefault<number | 'value'>(transactional.reach, 'value') },
  },
  (given) => {
    const o = settled(given),
      voucher = voucherOf(o);
    return byUtility(weighted(...plainTerms(o, voucher)), voucher, o);
  },
);

/**
 * Transactional Attention: u = A + 0.5 R + 0.3 S + 0.2 P - 0.1 F + V, with K_p slots for what anchors sponsor, the
 * first token and the last two.
 *
 * @remarks Basu 2026, eq. 1, section 3.3. A is accumulated attention, summed over the query heads of a KV head, and P
 * is their mean; P's rate is ours, the paper states none.
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
  ({ alpha: weight, delta, rate, ...given }) => {
    const o = settled(given),
      voucher = voucherOf(o),
      attention = compose(h2o({ recent: 0 }), reduceHeads({ kind: 'sum' })),
      terms = plainTerms(o, voucher),
      past: Term = [delta, pension({ rate })],
      before = terms.length - (o.whole ? 1 : 2); // of frequency and the voucher
    return byUtility(
      weighted([weight, attention], ...terms.slice(0, before), past, ...terms.slice(before)),
      voucher,
      o,
    );
  },
);
