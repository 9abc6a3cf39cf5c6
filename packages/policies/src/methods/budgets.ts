import { compose, method, withDefault } from '@kv/core';
import {
  cakeScores,
  compositeTokens,
  entropyVarianceBudgets,
  modelWide,
  topScoreBudgets,
} from '@kv/allocators-across-layers';
import { adaKV } from '@kv/allocators-ada-kv';
import { linearBudgets, roundedLinearBudgets } from '@kv/allocators-pyramidal';
import { snapkv } from '@kv/scorers-attention';
import { kvzip, rereadingAttention } from '@kv/scorers-reconstruction';
import { worstCaseAttention } from '@kv/scorers-window';
import { topK } from '@kv/selectors-top-k';
import { outputShare } from '@kv/transforms-critical';

/** PyramidKV with the authors' linear budgets, above the window, and an exact sum. */
export const pyramidal = method(
  'pyramidal',
  {
    source: linearBudgets,
    says: "SnapKV under PyramidKV's budgets, the authors' line.",
    options: { ...snapkv.options, ...linearBudgets.options },
  },
  ({ beta, ...o }) => compose(snapkv(o), linearBudgets({ beta }), topK()),
);

/** PyramidKV with kvpress' rule: SnapKV with budgets on a line that includes the window. */
export const pyramidkv = method(
  'pyramidkv',
  {
    source: roundedLinearBudgets,
    says: "SnapKV under PyramidKV's budgets, kvpress' rule.",
    options: { ...snapkv.options, beta: roundedLinearBudgets.options.beta },
  },
  ({ beta, ...o }) => compose(snapkv(o), roundedLinearBudgets({ window: o.window, beta }), topK()),
);

/** Ada-KV over SnapKV: a layer's slots go to the best scores of all its heads. */
export const adakv = method(
  'adakv',
  {
    source: adaKV,
    says: 'SnapKV, the slots of a layer shared between its heads.',
    options: { ...snapkv.options, ...adaKV.options },
  },
  ({ safeguard, ...o }) => compose(snapkv(o), adaKV({ safeguard }), topK()),
);

/** DynamicKV over SnapKV: a layer's budget is its share of the best scores of the model. */
export const dynamickv = method(
  'dynamickv',
  {
    source: topScoreBudgets,
    says: 'SnapKV, layers by their share of the best scores.',
    options: {
      ...snapkv.options,
      window: withDefault(snapkv.options.window, 32),
      kernel: withDefault(snapkv.options.kernel, 7),
      most: topScoreBudgets.options.most,
    },
  },
  ({ most, ...o }) => compose(snapkv(o), topScoreBudgets({ window: o.window, most }), topK()),
);

/** CAKE: layer budgets by entropy and variance of attention, slots by its mean and variance. */
export const cake = method(
  'cake',
  {
    source: entropyVarianceBudgets,
    says: 'Layers by entropy and variance of their attention.',
    options: { ...cakeScores.options, ...entropyVarianceBudgets.options },
  },
  ({ tau1, tau2, ...o }) => compose(cakeScores(o), entropyVarianceBudgets({ window: o.window, tau1, tau2 }), topK()),
);

/** KVzip with its own budgets: every key-value pair competes with those of all layers and heads. */
export const kvzipModelWide = method(
  'kvzipModelWide',
  {
    source: kvzip,
    says: 'KVzip, every pair against those of all layers and heads.',
    options: kvzip.options,
  },
  (o) => compose(kvzip(o), modelWide(), topK()),
);

/** KVCompose: scores by the attention of a second reading of the context, layer budgets by composite tokens. */
export const kvcompose = method(
  'kvcompose',
  {
    source: rereadingAttention,
    says: 'What reading the context again looks at, layers by composite tokens.',
  },
  () => compose(rereadingAttention(), compositeTokens(), topK()),
);

/** DefensiveKV: the worst case over queries and heads, times the value's share of the output, heads compared. */
export const defensivekv = method(
  'defensivekv',
  {
    source: worstCaseAttention,
    says: 'The worst case over queries and heads, heads compared.',
    options: worstCaseAttention.options,
  },
  (o) => compose(worstCaseAttention(o), outputShare(), adaKV({ safeguard: 0 }), topK()),
);

/** Layer-DefensiveKV: the same scores, compared over all layers too. */
export const layerDefensivekv = method(
  'layerDefensivekv',
  {
    source: worstCaseAttention,
    says: 'The worst case over queries and heads, layers compared too.',
    options: worstCaseAttention.options,
  },
  (o) => compose(worstCaseAttention(o), outputShare(), modelWide(), topK()),
);
