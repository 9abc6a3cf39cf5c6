/**
 * Wrong compositions in source form, with the sentence that both the compiler and `compose` say. `pieces.ts` declares
 * what they name.
 */
export const WRONG: readonly (readonly [source: string, sentence: string])[] = [
  ['topK(), snapkv()', "'topK' reads scores, but the scorer 'snapkv' stands after it: scorers come first"],
  ['caote(), snapkv()', "'caote' reads scores, but the scorer 'snapkv' stands after it: scorers come first"],
  ['snapkv(), rarity()', "'rarity' is a second scorer after 'snapkv': join scorers with sum(), max() or weighted()"],
  [
    'snapkv(), zScore(), knorm()',
    "'knorm' is a second scorer after 'snapkv ∘ zScore': join scorers with sum(), max() or weighted()",
  ],
  [
    'snapkv(), topK(), knorm()',
    "'knorm' is a scorer after 'snapkv ∘ topK', which already chose what to keep: scorers come first",
  ],
  [
    'knorm(), caote()',
    "'caote' needs weights (scores of at least 0), but 'knorm' before it leaves scores that may be negative: put softmax or minMax between them, or declare with weightScorer() what is always at least 0",
  ],
  [
    'snapkv(), zScore(), caote()',
    "'caote' needs weights (scores of at least 0), but 'snapkv ∘ zScore' before it leaves scores that may be negative: put softmax or minMax between them, or declare with weightScorer() what is always at least 0",
  ],
  [
    'snapkv(), chunks(), caote()',
    "'caote' needs weights (scores of at least 0), but 'snapkv ∘ chunks' before it leaves unit scores",
  ],
  ['snapkv(), chunks(), zScore()', "'zScore' needs scores, but 'snapkv ∘ chunks' before it leaves unit scores"],
  ['snapkv(), best()', "'best' needs unit scores, but 'snapkv' before it leaves weights (scores of at least 0)"],
  ['snapkv(), topK(), topK()', "'topK' needs scores, but 'snapkv ∘ topK' before it leaves kept slots"],
  [
    'snapkv(), topK(), pyramidal(), levels()',
    "'pyramidal' shares slots out before scores are read: put it before the selector, not after 'snapkv ∘ topK'",
  ],
  [
    'snapkv(), levels()',
    "'levels' needs kept slots, but 'snapkv' before it leaves weights (scores of at least 0): put a selector such as topK between them",
  ],
  [
    'knorm(), chunks(), levels()',
    "'levels' needs kept slots, but 'knorm ∘ chunks' before it leaves unit scores: put a selector such as topK between them",
  ],
  ['snapkv(), topK(), pool()', "'pool' needs scores, but 'snapkv ∘ topK' before it leaves kept slots"],
  [
    'knorm(), normalize()',
    "'normalize' needs weights (scores of at least 0), but 'knorm' before it leaves scores that may be negative: put softmax or minMax between them, or declare with weightScorer() what is always at least 0",
  ],
  [
    'knorm(), log1p()',
    "'log1p' needs weights (scores of at least 0), but 'knorm' before it leaves scores that may be negative: put softmax or minMax between them, or declare with weightScorer() what is always at least 0",
  ],
  [
    'compose(snapkv(), caote()), compose(knorm(), topK())',
    "'knorm ∘ topK' is a second scorer after 'snapkv ∘ caote': join scorers with sum(), max() or weighted()",
  ],
];
