import fc from 'fast-check';
import { sumOf } from '@kv/core/shared';
import { compile } from '@kv/core/engine';
import type { Piece, DraftSelection } from '@kv/core';
import { equal } from './compare.ts';
import { deviceClaims } from './device.ts';
import { claim, lawsOf } from './law.ts';
import type { Claim, Claims, LawOptions } from './law.ts';
import { byQueryHead, inView, scene } from './scene.ts';
import { realise, selectSpecs } from './selection.ts';
import type { SelectionRow, SelectCase } from './selection.ts';
import { onCpu, rowsOf } from './stage.ts';

/** An allocator that reads scores, on the device. */
export type AnyScoreAllocator = Piece<any, 'same'>;
/** Options of `scoreAllocatorLaws`. */
export interface ScoreAllocatorOptions extends LawOptions {
  /** How far the budgets of a layer may miss its total. @defaultValue 0 */
  readonly slack?: number | undefined;
}

/** Budgets and forced slots of each head after the allocator. */
interface Share {
  readonly budget: number;
  readonly forced: readonly boolean[];
  readonly row: SelectionRow;
}
interface Layer {
  readonly shape: readonly number[];
  readonly shares: readonly Share[];
}
/** Lowers start budgets so that no head starts with more than it holds. */
const fitting = (c: SelectCase): SelectCase => {
  const rows = c.rows.map((heads) => heads.map((r) => ({ ...r, budget: Math.min(r.budget, r.n) })));
  return { ...c, rows, given: c.given.map((g, l) => ({ ...g, budgets: rows[l].map((r) => r.budget) })) };
};
const left = (drafts: readonly DraftSelection[], { on, rows }: SelectCase): readonly Layer[] =>
  drafts.map(({ budgets, forced }, l) => {
    const layer = on.layers[l],
      b = rowsOf(budgets, layer),
      f = forced && rowsOf(forced, layer);
    return {
      shape: budgets.shape,
      shares: rows[l].map((row, g) => {
        const r = f ? Math.floor((g * f.rows) / rows[l].length) : 0;
        return {
          row,
          budget: b.data[g * b.slots] ?? Number.NaN,
          forced: Array.from({ length: row.n }, (_, i) => f !== undefined && f.data[r * f.slots + i] !== 0),
        };
      }),
    };
  });
type Property = Claim<AnyScoreAllocator, ScoreAllocatorOptions>;
const layers =
  (judge: (layer: Layer, c: SelectCase, options: ScoreAllocatorOptions) => void): Property =>
  (piece, options = {}) =>
    fc.property(selectSpecs(piece), (spec) => {
      const c = fitting(realise(spec));
      left(onCpu(piece, c.on, options, c.given), c).forEach((layer) => judge(layer, c, options));
    });
const shares = (judge: (share: Share) => void): Property => layers((layer) => layer.shares.forEach(judge));

/** Claims about an allocator that reads scores, each a property of it alone. */
export const scoreAllocator = {
  /** One budget per KV head. */
  shape: layers(({ shape }, { on }) => equal(shape, [on.spec.kvHeads, 1], 'shape of the budgets')),
  /** Whole numbers of at least 0. */
  whole: shares(({ budget }) =>
    claim(Number.isInteger(budget) && budget >= 0, () => `expected a whole budget, got ${budget}`),
  ),
  /**
   * Budgets add up to the given total, whether heads are even or not: that of a layer, or of the model if the allocator
   * reaches over it; to less only if no more slots may stay.
   */
  total: (piece, { slack = 0, ...options } = {}) =>
    fc.property(selectSpecs(piece), (spec) => {
      const c = fitting(realise(spec)),
        made = left(onCpu(piece, c.on, options, c.given), c).map((layer) => layer.shares);
      for (const shares of compile(piece).reach === 'model' ? [made.flat()] : made) {
        const got = sumOf(shares.map((s) => s.budget)),
          want = sumOf(shares.map((s) => s.row.budget)),
          open = sumOf(shares.map((s) => s.row.banned.filter((out) => !out).length));
        claim(
          got <= want + slack && got >= Math.min(want, open) - slack,
          () => `expected budgets that add up to ${want}, got ${got}`,
        );
      }
    }),
  /** No head gets more than it holds. */
  cap: shares(({ budget, row }) =>
    claim(!(budget > row.n), () => `a head of ${row.n} slots got a budget of ${budget}`),
  ),
  /** In a view of query rows a query head gets what it would get as a KV head with the same cache. */
  rows: (piece, options = {}) =>
    fc.property(selectSpecs(piece), ({ spec: { kvHeads, group, ...sizes }, ...rest }) => {
      const cache = scene({ ...sizes, kvHeads, group, ragged: false }),
        heads = byQueryHead(cache),
        { given } = fitting(realise({ ...rest, spec: heads.spec })),
        budgets = [inView(cache), heads].map((on) =>
          onCpu(piece, on, options, given).map((draft, l) => Array.from(rowsOf(draft.budgets, on.layers[l]).data)),
        );
      equal(budgets[0], budgets[1], 'budgets of query rows');
    }),
  /** Forced slots stay forced, and the budget of their head covers all of them. */
  forced: shares(({ budget, forced, row }) => {
    claim(
      row.forced.every((yes, i) => !yes || forced[i]),
      () => 'a forced slot is no longer forced',
    );
    claim(
      !(budget < forced.filter(Boolean).length),
      () => `a head with ${forced.filter(Boolean).length} forced slots got a budget of ${budget}`,
    );
  }),
  ...deviceClaims({
    specs: selectSpecs,
    at: (spec, pad) => fitting(realise(spec, { pad })),
    left: (_: AnyScoreAllocator, drafts, c) => left(drafts, c),
    agree: (got, want, what) => equal(got, want, `budgets ${what}`),
  }),
} satisfies Claims<AnyScoreAllocator, ScoreAllocatorOptions>;

/** The laws of an allocator that reads scores. */
export const scoreAllocatorLaws = lawsOf<AnyScoreAllocator, ScoreAllocatorOptions>(scoreAllocator, ['slack']);
