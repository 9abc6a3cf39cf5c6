import fc from 'fast-check';
import { cpu } from '@kv/core';
import type { Draft, Piece, Scored } from '@kv/core';
import { claim, suite } from './law.ts';
import type { Claims, LawOptions, Suite } from './law.ts';
import type { Scene } from './scene.ts';
import { has, realise, selectSpecs } from './selection.ts';
import type { Row, SelectCase, SelectSpec } from './selection.ts';
import { onCpu, onTrace, play, rowsOf, stage } from './stage.ts';

export type AnySelector = Piece<Scored | 'units', 'kept'> | Piece<Scored, 'kept'> | Piece<'weights', 'kept'>;
export interface SelectorOptions extends LawOptions {
  /** A larger budget keeps what a smaller one kept. @defaultValue false */
  readonly nested?: boolean | undefined;
  /**
   * Slots kept of n with a budget B and `banned` slots, where the selector says otherwise. @defaultValue min(B, n -
   * banned)
   */
  readonly size?:
    | ((budget: number, n: number, banned: number) => { readonly least: number; readonly most: number })
    | undefined;
}

/** Kept slots `[layer][head]`; rows that stand for several heads are repeated. */
function kept(piece: Piece, drafts: readonly Draft[], on: Scene): readonly (readonly (readonly number[])[])[] {
  return drafts.map((draft, l) => {
    claim(draft.kept !== undefined, () => `'${piece.label}' kept nothing in layer ${l}`);
    const { rows, slots, data, valid } = rowsOf(draft.kept!, on.layers[l]),
      heads = on.spec.kvHeads;
    claim(
      heads % Math.max(1, rows) === 0,
      () => `kept slots of layer ${l}: expected ${heads} rows or one, got ${rows}`,
    );
    return Array.from({ length: heads }, (_, g) => {
      const r = Math.floor((g * rows) / heads);
      return Array.from(data.subarray(r * slots, r * slots + valid[r]));
    });
  });
}
const run = (piece: Piece, { on, given }: SelectCase, options: LawOptions) =>
  kept(piece, onCpu(piece, on, options, given), on);
type Judge = (chosen: readonly number[], row: Row, options: SelectorOptions) => void;
type Property = Claims<'any', AnySelector, SelectorOptions>['any'];
const rowsAre =
  (
    judge: Judge,
    how: { readonly budget?: 'some' | 'all' } = {},
    tweak: (spec: SelectSpec) => SelectSpec = (s) => s,
  ): Property =>
  (piece, options = {}) =>
    fc.property(selectSpecs(piece).map(tweak), (spec) => {
      const c = realise(spec, how),
        sets = run(piece, c, options);
      c.rows.forEach((heads, l) => heads.forEach((row, g) => judge(sets[l][g], row, options)));
    });
const shown = (set: readonly number[]): string => `[${set.join(', ')}]`;
const count = (flags: readonly boolean[]): number => flags.filter(Boolean).length;
const equal = (a: unknown, b: unknown, what: string): void =>
  claim(JSON.stringify(a) === JSON.stringify(b), () => `${what}: ${JSON.stringify(a)} is not ${JSON.stringify(b)}`);

export type SelectorLaw =
  | 'size'
  | 'all'
  | 'forced'
  | 'banned'
  | 'ascending'
  | 'range'
  | 'ties'
  | 'nested'
  | 'padding'
  | 'pure'
  | 'traced';
/** Claims about a selector. */
export const selector: Claims<SelectorLaw, AnySelector, SelectorOptions> = {
  /** min(B, n - banned) slots are kept. */
  size: rowsAre((set, { n, budget, banned }, { size }) => {
    if (budget >= n) return;
    const want = Math.min(budget, n - count(banned)),
      { least, most } = size?.(budget, n, count(banned)) ?? { least: want, most: want };
    claim(
      set.length >= least && set.length <= most,
      () =>
        `expected ${least === most ? most : `${least} to ${most}`} slots of ${n} (budget ${budget}, ${count(banned)} banned), got ${shown(set)}`,
    );
  }),
  /** A budget of all slots keeps them all. */
  all: rowsAre(
    (set, { n }) =>
      claim(
        Array.from({ length: n }, (_, i) => i).every((i) => has(set, i)),
        () => `expected all ${n} slots, got ${shown(set)}`,
      ),
    { budget: 'all' },
    (s) => ({ ...s, banned: 0 }),
  ),
  /** What must stay stays. */
  forced: rowsAre((set, { forced }) =>
    forced.forEach((yes, i) => claim(!yes || has(set, i), () => `slot ${i} is forced, but kept are ${shown(set)}`)),
  ),
  /** What must go goes. */
  banned: rowsAre((set, { banned }) =>
    banned.forEach((yes, i) => claim(!yes || !has(set, i), () => `slot ${i} is banned, but kept are ${shown(set)}`)),
  ),
  /** Slots ascend strictly: sorted, none twice. */
  ascending: rowsAre((set) =>
    set.forEach((slot, i) => claim(i === 0 || slot > set[i - 1], () => `expected ascending slots, got ${shown(set)}`)),
  ),
  /** Every slot exists. */
  range: rowsAre((set, { n }) =>
    set.forEach((slot) =>
      claim(Number.isInteger(slot) && slot >= 0 && slot < n, () => `expected slots below ${n}, got ${shown(set)}`),
    ),
  ),
  /** Of two slots that differ in nothing, the lower one stays. */
  ties: rowsAre(
    (set, { n, scores, forced, banned }) => {
      for (let low = 0; low < n; low++)
        for (let high = low + 1; high < n; high++)
          claim(
            scores[low] !== scores[high] || has(set, low) || banned[low] || !has(set, high) || forced[high],
            () => `slots ${low} and ${high} score ${scores[low]} alike, but kept are ${shown(set)}`,
          );
    },
    {},
    (s) => ({ ...s, spec: { ...s.spec, vectors: 'same', weights: 'uniform' }, scores: { ...s.scores, kind: 'ties' } }),
  ),
  /** What a budget keeps, one slot more keeps too. */
  nested: (piece, options = {}) =>
    fc.property(selectSpecs(piece), (spec) => {
      const small = realise(spec),
        large = run(piece, realise(spec, { more: 1 }), options);
      run(piece, small, options).forEach((heads, l) =>
        heads.forEach((set, g) =>
          claim(
            set.every((i) => i >= small.rows[l][g].n || has(large[l][g], i)),
            () => `${shown(set)} is not part of ${shown(large[l][g])}`,
          ),
        ),
      );
    }),
  /** What stands beyond a row's valid slots changes nothing. */
  padding: (piece, options = {}) =>
    fc.property(selectSpecs(piece), (spec) =>
      equal(
        run(piece, realise(spec, { pad: NaN }), options),
        run(piece, realise(spec), options),
        'kept with other padding',
      ),
    ),
  /** The same scores and signals give the same slots again. */
  pure: (piece, options = {}) =>
    fc.property(selectSpecs(piece), (spec) => {
      const { on, given } = realise(spec),
        set = stage(on, cpu.ops, options, given),
        before = set.arrays.map((a) => a.slice());
      const first = kept(piece, play(piece, set, cpu.ops), on);
      equal(kept(piece, play(piece, set, cpu.ops), on), first, 'kept the second time');
      equal(
        before.map((a) => Array.from(a)),
        set.arrays.slice(0, before.length).map((a) => Array.from(a)),
        'scores and masks after the run',
      );
    }),
  /** Runs where every host read throws, with the same result. */
  traced: (piece, options = {}) =>
    fc.property(selectSpecs(piece), (spec) => {
      const c = realise(spec);
      equal(
        kept(piece, onTrace(piece, c.on, options, c.given), c.on),
        run(piece, c, options),
        'kept where host reads throw',
      );
    }),
};

/** The laws that hold for this selector. */
export const selectorLaws = (piece: AnySelector, options: SelectorOptions = {}): Suite =>
  suite(selector, piece, options, { nested: options.nested !== true });
