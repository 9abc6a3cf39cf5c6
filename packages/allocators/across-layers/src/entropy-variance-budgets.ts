import { as, attentionWindow, count, number, odd, queries, scoreAllocator, weightScorer } from '@kv/core';
import type { StepContext, Tensor } from '@kv/core';
import { budgetsByWeight } from './share-out.ts';

/** Queries tell how many there are, which may be fewer than the window has room for. */
const moments = (window: number) =>
  [as('mean', attentionWindow(window)), as('squares', attentionWindow(window, 'squares')), queries(window)] as const;
type Seen = StepContext & { readonly mean: Tensor; readonly squares: Tensor; readonly queries: Tensor };
/**
 * Variance (divided by w - 1) of the weights that each slot receives from the w queries of the window; 0 for a single
 * query.
 */
const variance = ({
  ops,
  mean,
  squares,
  queries: {
    shape: [, w = 1],
  },
}: Seen): Tensor => ops.mul(ops.max(0, ops.sub(squares, ops.mul(mean, mean))), w > 1 ? w / (w - 1) : 0);

const source = 'Qin et al. 2025, ICLR';
const window = count(32, 'queries', 'Last queries that are looked at, whose own slots stay.');

/**
 * CAKE's eviction indicator: mean attention of the last w queries plus gamma times its variance over them, pooled
 * before the window.
 *
 * @remarks Qin et al. 2025 (ICLR). Weights on query rows `[H, n]`; the window is forced. O(w H n d).
 */
export const cakeScores = weightScorer(
  'cakeScores',
  {
    source,
    says: "Mean attention of the last queries plus its variance over them, CAKE's indicator.",
    options: {
      window,
      gamma: number(200, 'Weight of the variance, added to the mean.', { least: 0 }),
      kernel: odd(5, 'Width of the mean over neighbouring slots.'),
    },
    needs: (o) => moments(o.window),
    ends: ({ window: last }) => ({ last }),
  },
  (ctx, { window: w, gamma, kernel }) => {
    const { ops, mean } = ctx;
    const last = ops.lastSlots(mean, w);
    const indicator = ops.add(mean, ops.mul(variance(ctx), gamma));
    return { scores: ops.pool(ops.where(last, 0, indicator), { kernel, kind: 'mean', except: w }), forced: last };
  },
);

/** Returns x^(1/τ) of positive numbers. */
const root = ({ ops }: StepContext, x: Tensor, tau: number): Tensor =>
  ops.exp(ops.div(ops.log(ops.max(x, 1e-30)), tau));

/**
 * CAKE's budgets: a layer gets slots by H^(1/tau1) · V^(1/tau2), the entropy of its window's attention (how widely it
 * attends) and the variance over its queries (how much that changes), summed over its heads and the slots before the
 * window. The entropy is the mean over the queries; their number is the same for all layers.
 *
 * @remarks Qin et al. 2025 (ICLR); the published temperatures depend on model and budget. An allocator over the whole
 * model: it acts after the whole prompt, where the authors cut earlier layers again as later ones come. All KV heads of
 * a layer get the same budget, unless a shorter head cannot hold it.
 */
export const entropyVarianceBudgets = scoreAllocator(
  'entropyVarianceBudgets',
  {
    source,
    says: 'Budgets of layers by the entropy and the variance of their attention.',
    options: {
      window,
      tau1: number(1, 'Temperature of the entropy H: it enters as H^(1 / tau1).', { above: 0 }),
      tau2: number(1, 'Temperature of the variance.', { above: 0 }),
    },
    needs: (o) => [...moments(o.window), as('entropy', attentionWindow(o.window, 'entropy'))],
    acrossLayers: (layers, { window: w, tau1, tau2 }) => {
      const weights = layers.map((layer) => {
        const { ops } = layer;
        const last = ops.lastSlots(layer.mean, w);
        const before = (x: Tensor): Tensor => ops.reduce('sum', ops.sum(ops.where(last, 0, x)), 'rows'); // [1, 1]
        return ops.mul(root(layer, before(layer.entropy), tau1), root(layer, before(variance(layer)), tau2));
      });
      return budgetsByWeight(layers, weights, w);
    },
  },
  ({ acrossLayers, index }) => ({ budgets: acrossLayers[index] }),
);
