import { as, attentionWindow, checkNumber, isPositiveInteger, queries } from '@kv/core';
import { modelAllocator, weigher } from '@kv/core/old';
import type { ScoreAllocator, Tensor, Weigher } from '@kv/core';
import type { Common } from '@kv/core/old';
import { layerBudgets } from './share-out.ts';

export interface CakeOptions {
  /** Last queries that are looked at, whose own slots stay. @defaultValue 32 */
  readonly window?: number;
  /** Temperature of the entropy: it enters as H^(1 / tau1). @defaultValue 1 */
  readonly tau1?: number;
  /** Temperature of the variance. @defaultValue 1 */
  readonly tau2?: number;
}
export interface CakeScoresOptions {
  /** @defaultValue 32 */
  readonly window?: number;
  /** Weight of the variance beside the mean. @defaultValue 200 */
  readonly gamma?: number;
  /** Odd width of the mean over neighbouring slots. @defaultValue 5 */
  readonly kernel?: number;
}

/** Queries tell how many there are, which may be fewer than the window has room for. */
const moments = (window: number) =>
  [as('mean', attentionWindow(window)), as('squares', attentionWindow(window, 'squares')), queries(window)] as const;
type Seen = Common & { readonly mean: Tensor; readonly squares: Tensor; readonly queries: Tensor };
/**
 * Variance (over w - 1) of the weights that each slot receives from the w queries of the window: that of a single query
 * is 0.
 */
const variance = ({
  ops,
  mean,
  squares,
  queries: {
    shape: [, w = 1],
  },
}: Seen): Tensor => ops.mul(ops.max(0, ops.sub(squares, ops.mul(mean, mean))), w > 1 ? w / (w - 1) : 0);

/**
 * CAKE's eviction indicator: mean attention of the last w queries plus gamma times its variance over them, pooled
 * before the window.
 *
 * @remarks Qin et al. 2025 (ICLR). Weights on query rows `[H, n]`; the window is forced. O(w H n d).
 * @throws KvError if `window` or `kernel` is not a positive whole number (`kernel` odd), or `gamma` negative.
 */
export function cakeScores({ window = 32, gamma = 200, kernel = 5 }: CakeScoresOptions = {}): Weigher<'cakeScores'> {
  checkNumber('cakeScores', 'window', window, 'a positive whole number of queries', isPositiveInteger);
  checkNumber('cakeScores', 'gamma', gamma, 'a number of at least 0', (x) => x >= 0 && x < Infinity);
  checkNumber(
    'cakeScores',
    'kernel',
    kernel,
    'an odd positive whole number',
    (k) => isPositiveInteger(k) && k % 2 === 1,
  );
  return weigher(
    { name: 'cakeScores', options: { window, gamma, kernel }, floor: (n) => Math.min(n, window) },
    moments(window),
    (ctx) => {
      const { ops, mean } = ctx,
        last = ops.lastSlots(mean, window),
        indicator = ops.add(mean, ops.mul(variance(ctx), gamma));
      return {
        scores: ops.pool(ops.where(last, 0, indicator), { kernel, kind: 'mean', except: window }),
        forced: last,
      };
    },
  );
}

/**
 * CAKE's budgets: a layer gets slots by H^(1/tau1) · V^(1/tau2), the entropy of its window's attention (how widely it
 * looks) and the variance over its
 * queries (how much that moves), summed over its heads and the slots before the window. The entropy is the mean over
 * the queries: how many there are is the same for all layers.
 *
 * @remarks Qin et al. 2025 (ICLR); the published temperatures depend on model and budget. An allocator over the whole
 * model: it
 * acts once the prompt is there, where the authors cut earlier layers again as later ones come. All KV heads of a layer
 * get the same, where they hold so many.
 * @throws KvError if `window` is not a positive whole number, or a temperature not positive.
 */
export function cake({ window = 32, tau1 = 1, tau2 = 1 }: CakeOptions = {}): ScoreAllocator<'cake'> {
  checkNumber('cake', 'window', window, 'a positive whole number of queries', isPositiveInteger);
  for (const [name, tau] of [
    ['tau1', tau1],
    ['tau2', tau2],
  ] as const)
    checkNumber('cake', name, tau, 'a positive number', (x) => x > 0 && x < Infinity);
  return modelAllocator(
    { name: 'cake', options: { window, tau1, tau2 } },
    [...moments(window), as('entropy', attentionWindow(window, 'entropy'))],
    (layers) =>
      layerBudgets(
        layers,
        layers.map((layer) => {
          const { ops } = layer,
            last = ops.lastSlots(layer.mean, window),
            power = (x: Tensor, tau: number): Tensor => ops.exp(ops.div(ops.log(ops.max(x, 1e-30)), tau));
          const before = (x: Tensor): Tensor =>
            ops.reduce('sum', ops.reduce('sum', ops.where(last, 0, x), 'slots'), 'rows');
          return ops.mul(power(before(layer.entropy), tau1), power(before(variance(layer)), tau2));
        }),
        window,
      ),
  );
}
