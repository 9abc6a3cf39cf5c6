import { compose, method } from '@kv/core';
import { h2o, snapkv, tova } from '@kv/scorers-attention';
import { caote, fastCaote } from '@kv/scorers-caote';
import { jointEviction } from '@kv/selectors-joint-eviction';
import { topK } from '@kv/selectors-top-k';
import { merge } from '@kv/transforms-merging';
import { sourceOf } from './common.ts';

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
