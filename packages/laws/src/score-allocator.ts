import fc from 'fast-check';
import { compile, cpu } from '@kv/core';
import type { Draft, Piece } from '@kv/core';
import { claim, suite } from './law.ts';
import type { Claims, LawOptions, Suite } from './law.ts';
import { realise, selectSpecs } from './selection.ts';
import type { Row, SelectCase } from './selection.ts';
import { onCpu, onTrace, play, rowsOf, stage } from './stage.ts';

/** An allocator that reads scores, on the device. */
export type AnyScoreAllocator = Piece<any, 'same'>;
export interface ScoreAllocatorOptions extends LawOptions {
  /** How far the budgets of a layer may miss its total. @defaultValue 0 */
  readonly slack?: number | undefined;
}

/** Budgets and forced slots of each head, as the allocator leaves them. */
interface Share {
  readonly budget: number;
  readonly forced: readonly boolean[];
  readonly row: Row;
}
interface Layer {
  readonly shape: readonly number[];
  readonly shares: readonly Share[];
}
/** Budgets that fit: no head starts with more than it holds. */
const fitting = (c: SelectCase): SelectCase => {
  const rows = c.rows.map((heads) => heads.map((r) => ({ ...r, budget: Math.min(r.budget, r.n) })));
  return { ...c, rows, given: c.given.map((g, l) => ({ ...g, budgets: rows[l].map((r) => r.budget) })) };
};
const left = (drafts: readonly Draft[], { on, rows }: SelectCase): readonly Layer[] =>
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
type Property = Claims<'any', AnyScoreAllocator, ScoreAllocatorOptions>['any'];
const layers =
  (judge: (layer: Layer, c: SelectCase, options: ScoreAllocatorOptions) => void): Property =>
  (piece, options = {}) =>
    fc.property(selectSpecs(piece), (spec) => {
      const c = fitting(realise(spec));
      left(onCpu(piece, c.on, options, c.given), c).forEach((layer) => judge(layer, c, options));
    });
const shares = (judge: (share: Share) => void): Property => layers((layer) => layer.shares.forEach(judge));
const sum = (xs: readonly number[]): number => xs.reduce((a, b) => a + b, 0);
const equal = (a: unknown, b: unknown, what: string): void =>
  claim(JSON.stringify(a) === JSON.stringify(b), () => `${what}: ${JSON.stringify(a)} is not ${JSON.stringify(b)}`);

export type ScoreAllocatorLaw = 'shape' | 'whole' | 'total' | 'cap' | 'forced' | 'padding' | 'pure' | 'traced';
/** Claims about an allocator of one layer that reads scores. */
export const scoreAllocator: Claims<ScoreAllocatorLaw, AnyScoreAllocator, ScoreAllocatorOptions> = {
  /** One budget a KV head. */
  shape: layers(({ shape }, { on }) => equal(shape, [on.spec.kvHeads, 1], 'shape of the budgets')),
  /** Whole numbers of at least 0. */
  whole: shares(({ budget }) =>
    claim(Number.isInteger(budget) && budget >= 0, () => `expected a whole budget, got ${budget}`),
  ),
  /**
   * Budgets add up to what was given, uneven heads or not: those of a layer, or of the model where the allocator
   * reaches over it; to less only where nothing more may stay.
   */
  total: (piece, { slack = 0, ...options } = {}) =>
    fc.property(selectSpecs(piece), (spec) => {
      const c = fitting(realise(spec)),
        made = left(onCpu(piece, c.on, options, c.given), c).map((layer) => layer.shares);
      for (const shares of compile(piece).reach === 'model' ? [made.flat()] : made) {
        const got = sum(shares.map((s) => s.budget)),
          want = sum(shares.map((s) => s.row.budget)),
          open = sum(shares.map((s) => s.row.banned.filter((out) => !out).length));
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
  /** What was forced stays forced, and the budget of its head covers all forced slots. */
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
  /** What stands beyond a row's valid slots changes nothing. */
  padding: (piece, options = {}) =>
    fc.property(selectSpecs(piece), (spec) => {
      const [a, b] = [0, NaN].map((pad) => {
        const c = fitting(realise(spec, { pad }));
        return left(onCpu(piece, c.on, options, c.given), c);
      });
      equal(b, a, 'budgets with other padding');
    }),
  /** The same scores and signals give the same budgets again. */
  pure: (piece, options = {}) =>
    fc.property(selectSpecs(piece), (spec) => {
      const c = fitting(realise(spec)),
        set = stage(c.on, cpu.ops, options, c.given),
        first = left(play(piece, set, cpu.ops), c);
      equal(left(play(piece, set, cpu.ops), c), first, 'budgets the second time');
    }),
  /** Runs where every host read throws, with the same result. */
  traced: (piece, options = {}) =>
    fc.property(selectSpecs(piece), (spec) => {
      const c = fitting(realise(spec));
      equal(
        left(onTrace(piece, c.on, options, c.given), c),
        left(onCpu(piece, c.on, options, c.given), c),
        'budgets where host reads throw',
      );
    }),
};

/** The laws of an allocator that reads scores. */
export const scoreAllocatorLaws = (piece: AnyScoreAllocator, options: ScoreAllocatorOptions = {}): Suite =>
  suite(scoreAllocator, piece, options);
