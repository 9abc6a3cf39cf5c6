import { folds } from '@kv/cpu/engine';
import type { FoldKind } from '@kv/cpu/engine';
import { ops, type WeightPanels } from './instructions.ts';
import { kinds } from './kinds.ts';

/**
 * Returns the words of a product of f32 rows x with a panel-packed f32 weight, to rows next to each other at `to`, and
 * of the mixtures of `count` of these by weights at `shares`: see @kv/cpu's block-products.ts.
 */
export function blockWords(
  { at, rows, inputs }: Pick<WeightPanels, 'at' | 'rows' | 'inputs'>,
  x: number,
  to: number,
  fold: FoldKind,
  count: number,
  n: number,
  folded: number,
  shares: number,
): readonly number[] {
  const product = [ops.product, kinds.F32, at, inputs, x, x, x, 4 * inputs, to, 4 * rows, rows, 0, 2];
  return fold === folds.rows
    ? product
    : [...product, ops.barrier, ops.fold, fold, to, 4 * rows, count, n, folded, shares, x, at, inputs];
}

/** Returns the words of sums in f64, at `to`, of n vectors of d at x by rows of weights at p. */
export const mixWords = (p: number, rows: number, x: number, n: number, d: number, to: number): readonly number[] => [
  ...[ops.mix, p, 4 * n, rows, x, n, d, to],
];

/**
 * Returns the words of @kv/core's `gram` or `quadratic`: x `[heads, n, d]` at `at`, followed by w or m, c
 * `[origins, d]`, lengths of the heads; `rows` of the matrices, or matrices of a head, `weights` rows of w.
 */
export const matrixWords = (
  kind: 'gram' | 'quadratic',
  [x, y, c, out, lengths]: readonly number[],
  sizes: readonly [heads: number, n: number, d: number, rows: number, weights: number, origins: number],
): readonly number[] => [ops[kind], x, y, c, out, ...sizes, lengths];
