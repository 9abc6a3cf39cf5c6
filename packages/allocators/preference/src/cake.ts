import { checkNumber, isPositiveInteger, keys, modelAllocator, positions, queries, weigher, windowRows } from '@kv/core';
import type { Common, ScoreAllocator, Tensor, Weigher } from '@kv/core';
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

const NEEDS = (window: number) => [queries(window), keys, positions] as const;
type Seen = Common & { readonly queries: Tensor; readonly keys: Tensor; readonly positions: Tensor };
/** Rows of the window's queries over the slots before the window, 0 elsewhere, with mean and variance (over w - 1) of each slot. */
function observed(ctx: Seen, window: number): { readonly rows: readonly Tensor[]; readonly mean: Tensor; readonly variance: Tensor } {
  const { ops } = ctx, all = windowRows(ctx), before = ops.sub(1, ops.lastSlots(all[0]!, window)), rows = all.map((row) => ops.mul(row, before)), w = rows.length;
  const total = (of: readonly Tensor[]): Tensor => of.reduce((a, b) => ops.add(a, b));
  const mean = ops.div(total(rows), w);
  return { rows, mean, variance: ops.div(total(rows.map((row) => { const off = ops.sub(row, mean); return ops.mul(off, off); })), Math.max(1, w - 1)) };
}

/**
 * CAKE's eviction indicator: mean attention of the last w queries plus gamma times its variance over them, pooled before the window.
 *
 * @remarks Qin et al. 2025 (ICLR). Weights on query rows `[H, n]`; the window is forced. O(w H n d).
 * @throws KvError if `window` or `kernel` is not a positive whole number (`kernel` odd), or `gamma` negative.
 */
export function cakeScores({ window = 32, gamma = 200, kernel = 5 }: CakeScoresOptions = {}): Weigher<'cakeScores'> {
  checkNumber('cakeScores', 'window', window, 'a positive whole number of queries', isPositiveInteger);
  checkNumber('cakeScores', 'gamma', gamma, 'a number of at least 0', (x) => x >= 0 && x < Infinity);
  checkNumber('cakeScores', 'kernel', kernel, 'an odd positive whole number', (k) => isPositiveInteger(k) && k % 2 === 1);
  return weigher({ name: 'cakeScores', options: { window, gamma, kernel }, floor: (n) => Math.min(n, window) }, NEEDS(window), (ctx) => {
    const { ops } = ctx, { mean, variance } = observed(ctx, window);
    return { scores: ops.pool(ops.add(mean, ops.mul(variance, gamma)), { kernel, kind: 'mean', except: window }), forced: ops.lastSlots(mean, window) };
  });
}

/**
 * CAKE's budgets: a layer gets slots by H^(1/tau1) · V^(1/tau2), the entropy of its window's attention (how widely it looks) and the variance over its
 * queries (how much that moves), summed over its heads.
 *
 * @remarks Qin et al. 2025 (ICLR); the published temperatures depend on model and budget. An allocator over the whole model: it
 * acts once the prompt is there, where the authors cut earlier layers again as later ones come. All KV heads of a layer get the same, where they hold so many.
 * @throws KvError if `window` is not a positive whole number, or a temperature not positive.
 */
export function cake({ window = 32, tau1 = 1, tau2 = 1 }: CakeOptions = {}): ScoreAllocator<'cake'> {
  checkNumber('cake', 'window', window, 'a positive whole number of queries', isPositiveInteger);
  for (const [name, tau] of [['tau1', tau1], ['tau2', tau2]] as const) checkNumber('cake', name, tau, 'a positive number', (x) => x > 0 && x < Infinity);
  return modelAllocator({ name: 'cake', options: { window, tau1, tau2 } }, NEEDS(window), (layers) => layerBudgets(layers, layers.map((layer) => {
    const { ops } = layer, { rows, variance } = observed(layer, window);
    const sum = (x: Tensor): Tensor => ops.reduce('sum', ops.reduce('sum', x, 'slots'), 'rows'), power = (x: Tensor, tau: number): Tensor => ops.exp(ops.div(ops.log(ops.max(x, 1e-30)), tau));
    const entropy = rows.map((a) => sum(ops.mul(a, ops.mul(ops.log(ops.add(a, 1e-10)), -1)))).reduce((a, b) => ops.add(a, b));
    return ops.mul(power(entropy, tau1), power(sum(variance), tau2));
  }), window));
}
