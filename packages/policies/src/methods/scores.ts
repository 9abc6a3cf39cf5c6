import {
  cadence,
  compose,
  count,
  id,
  mandatory,
  maybe,
  method,
  number,
  perModel,
  reduceHeads,
  rerotate,
  weighted,
  withDefault,
  zScore,
} from '@kv/core';
import { h2o, snapkv, streaming, tova } from '@kv/scorers-attention';
import { caote, fastCaote } from '@kv/scorers-caote';
import { byEviction, leverage, noncausalAttention } from '@kv/scorers-compactor';
import { recurrence } from '@kv/scorers-recurrence';
import { futureQueryScores } from '@kv/scorers-triattention';
import { groupMaxAttention, questionAttention, redundancy } from '@kv/scorers-window';
import { diversity } from '@kv/selectors-diversity';
import { jointEviction } from '@kv/selectors-joint-eviction';
import { topK } from '@kv/selectors-top-k';
import { twoStageScores } from '@kv/transforms-critical';
import { merge } from '@kv/transforms-merging';
import { recompressed, recompressing, standardised } from './common.ts';

/** Full cache: evicts nothing. The identity of `compose`, as a method. */
export const full = method('full', { source: 'the unit of compose', says: 'Full cache: evicts nothing.' }, () => ({
  ...id,
  label: 'full',
}));

/** StreamingLLM as its authors run it: keys are rotated to their positions within the cache. */
export const streamingRerotated = method(
  'streamingRerotated',
  {
    source: streaming,
    says: 'Sinks and recents at positions within the cache: keys are turned after every eviction.',
    options: streaming.options,
  },
  (o) => compose(streaming(o), topK(), rerotate()),
);

/** CriticalKV over SnapKV: half of the budget by SnapKV, the rest by score times |v W_O|. */
export const criticalkv = method(
  'criticalkv',
  {
    source: twoStageScores,
    says: 'SnapKV for half, then scores times the size of the value in the output.',
    options: { ...snapkv.options, ...twoStageScores.options },
  },
  ({ first, epsilon, ...o }) => compose(snapkv(o), twoStageScores({ first, epsilon }), topK()),
);

/** Compactor: leverage of the keys, times the share that is evicted, plus non-causal attention, each standardised. */
export const compactor = method(
  'compactor',
  {
    source: noncausalAttention,
    says: 'Leverage of the keys and non-causal attention in chunks.',
    options: {
      chunk: noncausalAttention.options.chunk,
      window: noncausalAttention.options.window,
      blending: maybe(number(0.35, 'Weight of leverage; left out, the share that goes.', { least: 0 })),
      sinks: withDefault(mandatory.options.sinks, 8),
      recent: withDefault(mandatory.options.recent, 4),
    },
  },
  ({ chunk, window, blending, ...o }) => {
    const layerwise = zScore({ over: 'layer' });
    const keys = compose(leverage(), layerwise);
    const attention = compose(noncausalAttention({ chunk, window }), layerwise);
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
    source: redundancy,
    says: 'Importance against redundancy.',
    options: {
      ...groupMaxAttention.options,
      lambda: number(0.1, 'Weight of the importance; redundancy has minus the rest to 1.', { least: 0, most: 1 }),
    },
  },
  ({ lambda, ...o }) => compose(weighted([lambda, groupMaxAttention(o)], [lambda - 1, redundancy()]), topK()),
);

/** Finch: attention of the question, with kept keys rotated to their positions within the cache. */
export const finch = method(
  'finch',
  {
    source: questionAttention,
    says: 'What the question looks at, keys turned to positions within the cache.',
    options: questionAttention.options,
  },
  (o) => compose(questionAttention(o), topK(), rerotate()),
);

const largest = reduceHeads({ kind: 'max' });
const wholePrompt = {
  ...mandatory.options.prompt,
  says: 'The prompt stays and only generated tokens go, as its code runs: an event during decoding, or every.',
};

/** TriAttention by layer and KV head: scores in standard deviations of their query head, the largest of the group. */
export const triattention = method(
  'triattention',
  {
    source: futureQueryScores,
    says: 'Keys that fare well with the queries to come, by calibrated statistics.',
    options: {
      ...futureQueryScores.options,
      prompt: wholePrompt,
      ...recompressing,
    },
  },
  ({ prompt, every, ...o }) => {
    const scores = compose(futureQueryScores(o), standardised, largest);
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
    source: diversity,
    says: 'TriAttention for the whole model, each pick less its likeness to what is kept.',
    options: {
      lambda: diversity.options.lambda,
      ...futureQueryScores.options,
      prompt: wholePrompt,
      ...recompressing,
    },
  },
  ({ lambda, prompt, every, ...o }) => {
    const scores = compose(futureQueryScores(o), standardised, perModel()),
      held = prompt ? compose(scores, mandatory({ sinks: 0, prompt })) : scores;
    return recompressed(compose(held, diversity({ lambda })), every);
  },
);

/**
 * SnapKV, then set-conditioned diversity with λ in standard deviations of its scores; `lambda: 0` is SnapKV, bit for bit.
 */
export const alpha = method(
  'alpha',
  {
    source: diversity,
    says: 'SnapKV, each pick less its likeness to what is kept.',
    options: { lambda: diversity.options.lambda, ...snapkv.options, ...recompressing },
  },
  ({ lambda, every, ...o }) => recompressed(compose(snapkv(o), diversity({ lambda, scale: 'deviations' })), every),
);

/** CAOTE's eviction error, with SnapKV's scores as its weights. */
export const snapkvCaote = method(
  'snapkvCaote',
  { source: caote, says: 'SnapKV, then the eviction error CAOTE.', options: snapkv.options },
  (o) => compose(snapkv(o), caote(), topK()),
);

/** FastCAOTE's eviction error, with SnapKV's scores as its weights. */
export const snapkvFastCaote = method(
  'snapkvFastCaote',
  { source: fastCaote, says: 'SnapKV, then FastCAOTE.', options: snapkv.options },
  (o) => compose(snapkv(o), fastCaote(), topK()),
);

/**
 * CAOTE's eviction error, with H2O's scores as its weights.
 *
 * @remarks H2O's window takes half of the budget by default; the paper's H2O has none: `recent: 0`.
 */
export const h2oCaote = method(
  'h2oCaote',
  {
    source: caote,
    says: "H2O, then the eviction error CAOTE; half of the budget is H2O's window, and `recent=0` is the paper's.",
    options: h2o.options,
  },
  (o) => compose(h2o(o), caote(), topK()),
);

/** FastCAOTE's eviction error, with H2O's scores as its weights. */
export const h2oFastCaote = method(
  'h2oFastCaote',
  { source: fastCaote, says: 'H2O, then FastCAOTE.', options: h2o.options },
  (o) => compose(h2o(o), fastCaote(), topK()),
);

/**
 * CAOTE's eviction error, with TOVA's scores as its weights.
 *
 * @remarks TOVA's scores are the mean over the heads of a layer, so that the error is of that mean, and of no head alone.
 */
export const tovaCaote = method(
  'tovaCaote',
  {
    source: caote,
    says: "TOVA, then the eviction error CAOTE, of the mean of a layer's heads.",
    options: tova.options,
  },
  (o) => compose(tova(o), caote(), topK()),
);

/** FastCAOTE's eviction error, with TOVA's scores as its weights. */
export const tovaFastCaote = method(
  'tovaFastCaote',
  { source: fastCaote, says: 'TOVA, then FastCAOTE.', options: tova.options },
  (o) => compose(tova(o), fastCaote(), topK()),
);

/** Joint eviction with H2O's weights: slots are evicted by the exact error of the whole evicted set. */
export const h2oJoint = method(
  'h2oJoint',
  {
    source: jointEviction,
    says: 'H2O, evicted by the exact error of all that left.',
    options: h2o.options,
  },
  (o) => compose(h2o(o), jointEviction()),
);

/** LazyEviction: the slots that are likely to be looked at again, chosen every W tokens; the last W stay. */
export const lazyEviction = method(
  'lazyEviction',
  {
    source: recurrence,
    says: 'While it reasons: what is likely to be looked at again, every W tokens.',
    options: { ...recurrence.options, every: count(32, 'tokens', 'An event every N generated tokens.') },
  },
  ({ every, ...o }) => compose(recurrence(o), topK(), cadence({ every })),
);

/** SnapKV; folds the value of every evicted slot into the kept slot with the nearest key. */
export const snapkvMerge = method(
  'snapkvMerge',
  {
    source: merge,
    says: 'SnapKV, the evicted folded into what stays.',
    options: { ...snapkv.options, ...merge.options },
  },
  ({ threshold, ...o }) => compose(snapkv(o), topK(), merge({ threshold })),
);
