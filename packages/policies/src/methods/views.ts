import { compose, mandatory, method, view, withDefault } from '@kv/core';
import { etf, psaw } from '@kv/allocators-schedules';
import { heavyChannelProducts, newestQueryAttention, pageBounds } from '@kv/scorers-retrieval';
import { cis, queryKeyProducts } from '@kv/selectors-cis';
import { sharedSets } from '@kv/selectors-hshare';
import { topK } from '@kv/selectors-top-k';
import { wholeUnits } from '@kv/selectors-whole-units';
import { chunks } from '@kv/units-chunks';

/**
 * Quest: every decoded query attends to the whole pages with the highest bounds; nothing is evicted.
 *
 * @remarks Tang et al. 2024. The authors leave layers 0 and 1 dense: `dense: 2`.
 */
export const quest = method(
  'quest',
  {
    source: pageBounds,
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
    source: heavyChannelProducts,
    says: 'Hides all but the best by a few channels.',
    options: { ...heavyChannelProducts.options, slots: view.options.budget },
  },
  ({ slots, ...o }) => view(compose(heavyChannelProducts(o), topK()), { budget: slots }),
);

/** HShare: Double Sparsity's sets, shared between tokens, layers and heads, with the authors' 8 + 88 + 32 slots. */
export const hshare = method(
  'hshare',
  {
    source: sharedSets,
    says: 'Double Sparsity, its sets shared between tokens, layers and heads.',
    options: {
      ...sharedSets.options,
      slots: withDefault(view.options.budget, 128),
      channels: withDefault(heavyChannelProducts.options.channels, 32),
    },
  },
  ({ slots, channels, ...o }) => {
    const { sinks, local: recent } = o;
    return view(compose(heavyChannelProducts({ channels }), mandatory({ sinks, recent }), topK(), sharedSets(o)), {
      budget: slots,
    });
  },
);

/** Exact top-k of every decoded query: the most attention mass that a set of this size can hold. A yardstick. */
export const topKOracle = method(
  'topKOracle',
  {
    source: newestQueryAttention,
    says: 'Hides all but the true top-k of every query: a yardstick.',
    options: { slots: view.options.budget },
  },
  ({ slots }) => view(compose(newestQueryAttention(), topK()), { budget: slots }),
);

/**
 * CPE: CIS inside a view, PSAW's window over it, and ETF in prefill. Evicts nothing.
 *
 * @remarks PrHS, section IV; the defaults are its GSM8K setting, 8 + 88 + 32. CIS alone is phi = 1 and psi = 1.
 */
export const cpe = method(
  'cpe',
  {
    source: psaw,
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
    const shared = compose(queryKeyProducts(), mandatory({ sinks, recent }), topK(), cis(o));
    return compose(view(shared, { budget }), psaw({ sinks, phi, alpha: steepness }), etf({ sinks, psi, gamma, reuse }));
  },
);
