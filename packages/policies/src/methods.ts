import {
  cadence,
  compose,
  id,
  mandatory,
  maybe,
  method,
  number,
  oneOf,
  part,
  perModel,
  reduceHeads,
  rerotate,
  view,
  weighted,
  withDefault,
  zScore,
} from '@kv/core';
import type { Piece, ResolvedOptions } from '@kv/core';
import { adaKV } from '@kv/allocators-ada-kv';
import {
  cake as cakeBudgets,
  cakeScores,
  compositeTokens,
  dynamickv as dynamicBudgets,
  modelWide,
} from '@kv/allocators-preference';
import { protectedPartition } from '@kv/allocators-protected-partition';
import { pyramidal as pyramid, pyramidkv as kvpressPyramid } from '@kv/allocators-pyramidal';
import { etf, psaw } from '@kv/allocators-schedules';
import { h2o, snapkv, streaming, tova } from '@kv/scorers-attention';
import { caote, fastCaote } from '@kv/scorers-caote';
import { byEviction, leverage, noncausal } from '@kv/scorers-compactor';
import { frequency, rarity } from '@kv/scorers-rarity';
import { kvcompose as reread, kvzip } from '@kv/scorers-reconstruction';
import { exact, labels, pageBounds } from '@kv/scorers-retrieval';
import { learnedRank, learnRank, pension, recency, sponsorship, structure } from '@kv/scorers-sponsorship';
import { triattention as kinship } from '@kv/scorers-triattention';
import { defensive, finch as question, importance, redundancy } from '@kv/scorers-window';
import { atLeast } from '@kv/allocators-threshold';
import { branchDissolution } from '@kv/selectors-branch-dissolution';
import { cis, dots } from '@kv/selectors-cis';
import { diversity } from '@kv/selectors-diversity';
import { sharedSets } from '@kv/selectors-hshare';
import { jointEviction } from '@kv/selectors-joint-eviction';
import { topK } from '@kv/selectors-top-k';
import { wholeUnits } from '@kv/selectors-whole-units';
import { criticalkv as stages, outputShare } from '@kv/transforms-critical';
import { merge } from '@kv/transforms-merging';
import { chunks, entropyGate } from '@kv/units-chunks';
import { breath, clip, crystallization, saliency, sentences, trunks } from '@kv/units-trunks';

const standardised = zScore();

// A method is a name, a source, the options that it passes on and a composition. A scorer alone needs no method: policy
// text appends topK.

const sourceOf = ({ description: { source } }: { readonly description: { readonly source: string } }): string => source;

/** Adds an eviction after every `every` generated tokens; without `every`, returns the policy as it is. */
const recompressed = (policy: Piece<'start', 'kept'>, every: number | undefined): Piece<'start', 'kept'> =>
  every === undefined ? policy : compose(policy, cadence({ every }));

/** Full cache: evicts nothing. The identity of `compose`, as a method. */
export const full = method('full', { source: 'the unit of compose', says: 'Full cache: evicts nothing.' }, () => ({
  ...id,
  label: 'full',
}));

/** StreamingLLM as its authors run it: keys are rotated to their positions within the cache. */
export const streamingRerotated = method(
  'streamingRerotated',
  {
    source: sourceOf(streaming),
    says: 'Sinks and recents at positions within the cache: keys are turned after every eviction.',
    options: streaming.options,
  },
  (o) => compose(streaming(o), topK(), rerotate()),
);

/** PyramidKV with the authors' linear budgets, above the window, and an exact sum. */
export const pyramidal = method(
  'pyramidal',
  {
    source: sourceOf(pyramid),
    says: "SnapKV under PyramidKV's budgets, the authors' line.",
    options: { ...snapkv.options, ...pyramid.options },
  },
  ({ beta, ...o }) => compose(snapkv(o), pyramid({ beta }), topK()),
);
/** PyramidKV with kvpress' rule: SnapKV with budgets on a line that includes the window. */
export const pyramidkv = method(
  'pyramidkv',
  {
    source: sourceOf(kvpressPyramid),
    says: "SnapKV under PyramidKV's budgets, kvpress' rule.",
    options: { ...snapkv.options, beta: kvpressPyramid.options.beta },
  },
  ({ beta, ...o }) => compose(snapkv(o), kvpressPyramid({ window: o.window, beta }), topK()),
);
/** Ada-KV over SnapKV: a layer's slots go to the best scores of all its heads. */
export const adakv = method(
  'adakv',
  {
    source: sourceOf(adaKV),
    says: 'SnapKV, the slots of a layer shared between its heads.',
    options: { ...snapkv.options, ...adaKV.options },
  },
  ({ safeguard, ...o }) => compose(snapkv(o), adaKV({ safeguard }), topK()),
);
/** CriticalKV over SnapKV: half of the budget by SnapKV, the rest by score times |v W_O|. */
export const criticalkv = method(
  'criticalkv',
  {
    source: sourceOf(stages),
    says: 'SnapKV for half, then scores times the size of the value in the output.',
    options: { ...snapkv.options, ...stages.options },
  },
  ({ first, epsilon, ...o }) => compose(snapkv(o), stages({ first, epsilon }), topK()),
);
/** DynamicKV over SnapKV: a layer's budget is its share of the best scores of the model. */
export const dynamickv = method(
  'dynamickv',
  {
    source: sourceOf(dynamicBudgets),
    says: 'SnapKV, layers by their share of the best scores.',
    options: {
      ...snapkv.options,
      window: withDefault(snapkv.options.window, 32),
      kernel: withDefault(snapkv.options.kernel, 7),
      most: dynamicBudgets.options.most,
    },
  },
  ({ most, ...o }) => compose(snapkv(o), dynamicBudgets({ window: o.window, most }), topK()),
);
/** CAKE: layer budgets by entropy and variance of attention, slots by its mean and variance. */
export const cake = method(
  'cake',
  {
    source: sourceOf(cakeBudgets),
    says: 'Layers by entropy and variance of their attention.',
    options: { ...cakeScores.options, ...cakeBudgets.options },
  },
  ({ tau1, tau2, ...o }) => compose(cakeScores(o), cakeBudgets({ window: o.window, tau1, tau2 }), topK()),
);

/** ChunkKV: keeps SnapKV's best chunks of positions whole, the same ones in every head of a layer. */
export const chunkkv = method(
  'chunkkv',
  {
    source: sourceOf(chunks),
    says: "SnapKV's best chunks, whole and alike in every head.",
    options: { size: chunks.options.size, ...snapkv.options },
  },
  ({ size, ...o }) => compose(snapkv(o), chunks({ size }), wholeUnits()),
);
/** ChunkKV gated by entropy, as kvpress' EntropyGatedChunkKVPress: spiky chunks are cut to their best slots. */
export const entropyChunkkv = method(
  'entropyChunkkv',
  {
    source: sourceOf(entropyGate),
    says: 'Coherent chunks whole, spiky ones cut to their best slots.',
    options: { ...entropyGate.options, ...snapkv.options },
  },
  ({ size, low, ...o }) => compose(snapkv(o), entropyGate({ size, low }), topK()),
);
/**
 * Keeps whole sentences that the question attends to, each scored by its three best slots; the last one, which no
 * longer fits, fills the remaining budget with its best slots.
 *
 * @remarks Ours, from SnapKV's window and CrystalCache's sentences: a question attends to the beginning of a number;
 * the rest of the number is attended to only while it is being generated. Measured in studies/smollm2-needle.
 */
export const attendedSentences = method(
  'attendedSentences',
  {
    source: 'studies/smollm2-needle',
    says: 'Whole sentences that the question looks at.',
    options: {
      window: withDefault(snapkv.options.window, 8),
      maxSize: withDefault(sentences.options.maxSize, 32),
      sinks: mandatory.options.sinks,
    },
  },
  ({ window, maxSize, sinks }) =>
    compose(snapkv({ window, kernel: 1 }), mandatory({ sinks }), sentences({ maxSize }), wholeUnits({ last: 'fill' })),
);

/**
 * Keeps whole sentences whose keys are unlike those of the rest of the text, the same ones in every layer and head. A
 * token scores its mean leverage over all heads, in standard deviations of the head; a sentence scores the mean of its
 * tokens.
 *
 * @remarks Ours, for a question that comes after the eviction: it reads no attention. A fact that nothing else in the
 * text predicts has keys that no other keys account for. Leverage is Compactor's, arXiv:2507.08143, and sentences are
 * CrystalCache's. Measured in studies/hard-half. Runs once the whole prompt is read, and keeps no state for it.
 */
export const outstandingSentences = method(
  'outstandingSentences',
  {
    source: 'studies/hard-half',
    says: 'Whole sentences whose keys are unlike all others: the question may come later.',
    options: {
      maxSize: withDefault(sentences.options.maxSize, 20),
      sinks: mandatory.options.sinks,
      kind: withDefault(perModel.options.kind, 'mean'),
    },
  },
  ({ maxSize, sinks, kind }) =>
    compose(
      leverage(),
      standardised,
      perModel({ kind }),
      mandatory({ sinks }),
      sentences({ maxSize, top: 0 }),
      wholeUnits({ last: 'fill' }),
    ),
);

/** SnapKV; folds the value of every evicted slot into the kept slot with the nearest key. */
export const snapkvMerge = method(
  'snapkvMerge',
  {
    source: sourceOf(merge),
    says: 'SnapKV, the evicted folded into what stays.',
    options: { ...snapkv.options, ...merge.options },
  },
  ({ threshold, ...o }) => compose(snapkv(o), topK(), merge({ threshold })),
);

/** CAOTE's eviction error, with SnapKV's scores as its weights. */
export const snapkvCaote = method(
  'snapkvCaote',
  { source: sourceOf(caote), says: 'SnapKV, then the eviction error CAOTE.', options: snapkv.options },
  (o) => compose(snapkv(o), caote(), topK()),
);
/** FastCAOTE's eviction error, with SnapKV's scores as its weights. */
export const snapkvFastCaote = method(
  'snapkvFastCaote',
  { source: sourceOf(fastCaote), says: 'SnapKV, then FastCAOTE.', options: snapkv.options },
  (o) => compose(snapkv(o), fastCaote(), topK()),
);
/** CAOTE's eviction error, with H2O's scores as its weights. */
export const h2oCaote = method(
  'h2oCaote',
  { source: sourceOf(caote), says: 'H2O, then the eviction error CAOTE.', options: h2o.options },
  (o) => compose(h2o(o), caote(), topK()),
);
/** FastCAOTE's eviction error, with H2O's scores as its weights. */
export const h2oFastCaote = method(
  'h2oFastCaote',
  { source: sourceOf(fastCaote), says: 'H2O, then FastCAOTE.', options: h2o.options },
  (o) => compose(h2o(o), fastCaote(), topK()),
);
/** CAOTE's eviction error, with TOVA's scores as its weights. */
export const tovaCaote = method(
  'tovaCaote',
  { source: sourceOf(caote), says: 'TOVA, then the eviction error CAOTE.', options: tova.options },
  (o) => compose(tova(o), caote(), topK()),
);
/** FastCAOTE's eviction error, with TOVA's scores as its weights. */
export const tovaFastCaote = method(
  'tovaFastCaote',
  { source: sourceOf(fastCaote), says: 'TOVA, then FastCAOTE.', options: tova.options },
  (o) => compose(tova(o), fastCaote(), topK()),
);
/** Joint eviction with H2O's weights: slots are evicted by the exact error of the whole evicted set. */
export const h2oJoint = method(
  'h2oJoint',
  {
    source: sourceOf(jointEviction),
    says: 'H2O, evicted by the exact error of all that left.',
    options: h2o.options,
  },
  (o) => compose(h2o(o), jointEviction()),
);

/** KVzip with its own budgets: every key-value pair competes with those of all layers and heads. */
export const kvzipModelWide = method(
  'kvzipModelWide',
  {
    source: sourceOf(kvzip),
    says: 'KVzip, every pair against those of all layers and heads.',
    options: kvzip.options,
  },
  (o) => compose(kvzip(o), modelWide(), topK()),
);
/** KVCompose: scores by the attention of a second reading of the context, layer budgets by composite tokens. */
export const kvcompose = method(
  'kvcompose',
  { source: sourceOf(reread), says: 'What reading the context again looks at, layers by composite tokens.' },
  () => compose(reread(), compositeTokens(), topK()),
);
/** Compactor: leverage of the keys, times the share that is evicted, plus non-causal attention, each standardised. */
export const compactor = method(
  'compactor',
  {
    source: sourceOf(noncausal),
    says: 'Leverage of the keys and non-causal attention in chunks.',
    options: {
      chunk: noncausal.options.chunk,
      window: noncausal.options.window,
      blending: maybe(number(0.35, 'Weight of leverage; left out, the share that goes.', { least: 0 })),
      sinks: withDefault(mandatory.options.sinks, 8),
      recent: withDefault(mandatory.options.recent, 4),
    },
  },
  ({ chunk, window, blending, ...o }) => {
    const layerwise = zScore({ over: 'layer' });
    const keys = compose(leverage(), layerwise);
    const attention = compose(noncausal({ chunk, window }), layerwise);
    return compose(
      weighted(blending === undefined ? [1, compose(keys, byEviction())] : [blending, keys], [1, attention]),
      mandatory(o),
      topK(),
    );
  },
);
/** R-KV: importance minus redundancy. */
export const rkv = method(
  'rkv',
  {
    source: sourceOf(redundancy),
    says: 'Importance against redundancy.',
    options: {
      ...importance.options,
      lambda: number(0.1, 'Weight of the importance; redundancy has minus the rest to 1.', { least: 0, most: 1 }),
    },
  },
  ({ lambda, ...o }) => compose(weighted([lambda, importance(o)], [lambda - 1, redundancy()]), topK()),
);
/** DefensiveKV: the worst case over queries and heads, times the value's share of the output, heads compared. */
export const defensivekv = method(
  'defensivekv',
  {
    source: sourceOf(defensive),
    says: 'The worst case over queries and heads, heads compared.',
    options: defensive.options,
  },
  (o) => compose(defensive(o), outputShare(), adaKV({ safeguard: 0 }), topK()),
);
/** Layer-DefensiveKV: the same scores, compared over all layers too. */
export const layerDefensivekv = method(
  'layerDefensivekv',
  {
    source: sourceOf(defensive),
    says: 'The worst case over queries and heads, layers compared too.',
    options: defensive.options,
  },
  (o) => compose(defensive(o), outputShare(), modelWide(), topK()),
);
/** Finch: attention of the question, with kept keys rotated to their positions within the cache. */
export const finch = method(
  'finch',
  {
    source: sourceOf(question),
    says: 'What the question looks at, keys turned to positions within the cache.',
    options: question.options,
  },
  (o) => compose(question(o), topK(), rerotate()),
);

const recompressing = {
  every: { ...cadence.options.every, says: 'An event every N generated tokens too; left out, none.' },
};
const largest = reduceHeads({ kind: 'max' });
/** TriAttention by layer and KV head: scores in standard deviations of their query head, the largest of the group. */
export const triattention = method(
  'triattention',
  {
    source: sourceOf(kinship),
    says: 'Keys that fare well with the queries to come, by calibrated statistics.',
    options: {
      ...kinship.options,
      prompt: {
        ...mandatory.options.prompt,
        says: 'The prompt stays and only generated tokens go, as its code runs: an event during decoding, or every.',
      },
      ...recompressing,
    },
  },
  ({ prompt, every, ...o }) => {
    const scores = compose(kinship(o), standardised, largest);
    return recompressed(
      prompt ? compose(scores, mandatory({ sinks: 0, prompt }), topK()) : compose(scores, topK()),
      every,
    );
  },
);
/**
 * Set-conditioned diversity on its paper's base scorer: TriAttention's largest score of a token over all layers and
 * query heads, one kept set for the whole model.
 *
 * @remarks Section 4.1. `lambda: 0` is that base scorer alone. The paper also evicts while it generates: set `every`.
 */
export const alphaTriattention = method(
  'alphaTriattention',
  {
    source: sourceOf(diversity),
    says: 'TriAttention for the whole model, each pick less its likeness to what is kept.',
    options: { lambda: diversity.options.lambda, ...kinship.options, ...recompressing },
  },
  ({ lambda, every, ...o }) =>
    recompressed(compose(kinship(o), standardised, perModel(), diversity({ lambda })), every),
);
/** SnapKV's weights in standard deviations, then set-conditioned diversity; `lambda: 0` is SnapKV. */
export const alpha = method(
  'alpha',
  {
    source: sourceOf(diversity),
    says: 'SnapKV, each pick less its likeness to what is kept.',
    options: { lambda: diversity.options.lambda, ...snapkv.options, ...recompressing },
  },
  ({ lambda, every, ...o }) =>
    recompressed(compose(snapkv(o), reduceHeads({ kind: 'mean' }), standardised, diversity({ lambda })), every),
);

/**
 * Quest: every decoded query attends to the whole pages with the highest bounds; nothing is evicted.
 *
 * @remarks Tang et al. 2024. The authors leave layers 0 and 1 dense: `dense: 2`.
 */
export const quest = method(
  'quest',
  {
    source: sourceOf(pageBounds),
    says: 'Hides all but the pages with the highest bounds.',
    options: {
      ...pageBounds.options,
      slots: view.options.budget,
      dense: view.options.dense,
    },
  },
  ({ slots, dense, page }) =>
    view(compose(pageBounds({ page }), chunks({ size: page, shared: false }), wholeUnits()), { budget: slots, dense }),
);
/**
 * Double Sparsity: every decoded query attends to the slots whose few heavy channels score highest; nothing is evicted.
 */
export const doubleSparsity = method(
  'doubleSparsity',
  {
    source: sourceOf(labels),
    says: 'Hides all but the best by a few channels.',
    options: { ...labels.options, slots: view.options.budget },
  },
  ({ slots, ...o }) => view(compose(labels(o), topK()), { budget: slots }),
);
/** HShare: Double Sparsity's sets, shared between tokens, layers and heads, with the authors' 8 + 88 + 32 slots. */
export const hshare = method(
  'hshare',
  {
    source: sourceOf(sharedSets),
    says: 'Double Sparsity, its sets shared between tokens, layers and heads.',
    options: {
      ...sharedSets.options,
      slots: withDefault(view.options.budget, 128),
      channels: withDefault(labels.options.channels, 32),
    },
  },
  ({ slots, channels, ...o }) => {
    const { sinks, local: recent } = o;
    return view(compose(labels({ channels }), mandatory({ sinks, recent }), topK(), sharedSets(o)), { budget: slots });
  },
);
/** Exact top-k of every decoded query: the most attention mass that a set of this size can hold. A yardstick. */
export const topKOracle = method(
  'topKOracle',
  {
    source: sourceOf(exact),
    says: 'Hides all but the true top-k of every query: a yardstick.',
    options: { slots: view.options.budget },
  },
  ({ slots }) => view(compose(exact(), topK()), { budget: slots }),
);
/**
 * CPE: CIS inside a view, PSAW's window over it, and ETF in prefill. Evicts nothing.
 *
 * @remarks PrHS, section IV; the defaults are its GSM8K setting, 8 + 88 + 32. CIS alone is phi = 1 and psi = 1.
 */
export const cpe = method(
  'cpe',
  {
    source: sourceOf(psaw),
    says: 'Evicts nothing: shared retrieval, shrinking windows, frozen early tokens.',
    options: {
      budget: withDefault(view.options.budget, 128),
      ...psaw.options,
      ...etf.options,
      ...cis.options,
      sinks: withDefault(cis.options.sinks, 8),
    },
  },
  ({ budget, phi, alpha: steepness, psi, gamma, reuse, ...o }) => {
    const { sinks, local: recent } = o;
    const shared = compose(dots(), mandatory({ sinks, recent }), topK(), cis(o));
    return compose(view(shared, { budget }), psaw({ sinks, phi, alpha: steepness }), etf({ sinks, psi, gamma, reuse }));
  },
);

const crystal = {
  impact: oneOf(
    ['encoding', 'uniform'],
    'encoding',
    'What tokens weigh: saliency and rarity, or, as in the ablation of table 10, all the same.',
  ),
  alpha: crystallization.options.alpha,
  maxSize: trunks.options.maxSize,
  sinks: mandatory.options.sinks,
  recent: withDefault(mandatory.options.recent, 128),
};
/** Encoding impact of tokens, clipped; forces sinks and recents, with budgets of at least their number (eq. 30). */
const weighing = ({ impact, sinks, recent }: ResolvedOptions<typeof crystal>) => {
  const weights = impact === 'uniform' ? weighted([0, rarity()]) : weighted([10, saliency()], [10, rarity()]);
  return compose(weights, clip(), mandatory({ sinks, recent }), atLeast({ slots: sinks + recent }));
};
/**
 * CrystalCache: encoding impact of tokens, trunks of linked sentences, max(centrality, content), branch dissolution.
 *
 * @remarks CrystalCache, algorithm 2, prefill. A budget below sinks + recent, 132, is raised to it (eq. 30). Keeps up
 * to two slots fewer than the budget. Costs the first layer once more.
 */
export const crystalcache = method(
  'crystalcache',
  {
    source: 'CrystalCache, algorithm 2',
    says: 'Whole trunks of sentences by centrality or content; at least sinks + recent stay.',
    options: crystal,
  },
  ({ alpha, maxSize, ...o }) =>
    compose(weighing({ alpha, maxSize, ...o }), trunks({ maxSize }), crystallization({ alpha }), branchDissolution()),
);
/**
 * CrystalCache with its breath cycle: every few generated tokens, trunks that matter now raise related ones, and the
 * cache is dissolved to its budget again, with nothing protected.
 *
 * @remarks CrystalCache, section 3.8, which its authors never ran; the budget is the prompt's.
 */
export const crystalcacheBreath = method(
  'crystalcacheBreath',
  {
    source: sourceOf(breath),
    says: 'CrystalCache that dissolves again while it generates.',
    options: { ...crystal, interval: breath.options.interval },
  },
  ({ alpha, maxSize, interval, ...o }) =>
    compose(
      weighing({ alpha, maxSize, ...o }),
      trunks({ maxSize, run: interval }),
      breath({ interval, alpha }),
      branchDissolution(),
      cadence({ every: interval }),
    ),
);

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
