import fc from 'fast-check';
import type { Piece, ScorePhase, DraftSelection } from '@kv/core';
import { equal } from './compare.ts';
import { deviceClaims } from './device.ts';
import { claim, suite } from './law.ts';
import type { Claim, Claims, LawOptions, Suite } from './law.ts';
import type { Scene } from './scene.ts';
import { has, realise, selectSpecs } from './selection.ts';
import type { SelectionRow, SelectCase, SelectSpec } from './selection.ts';
import { onCpu, rowsOf } from './stage.ts';

/** A selector, of scores, of weights or of units. */
export type AnySelector = Piece<ScorePhase | 'units', 'kept'> | Piece<ScorePhase, 'kept'> | Piece<'weights', 'kept'>;
/** Options of `selectorLaws`. */
export interface SelectorOptions extends LawOptions {
  /** A larger budget keeps what a smaller one kept. @defaultValue false */
  readonly nested?: boolean | undefined;
  /**
   * Number of slots kept of n with a budget B and `banned` slots, if the selector declares another.
   * @defaultValue min(B, n - banned)
   */
  readonly size?:
    | ((budget: number, n: number, banned: number) => { readonly least: number; readonly most: number })
    | undefined;
}

/** Random selections, of one row a query head, a KV head or a layer: views and hosts select by each of them. */
const specs = (piece: Piece): fc.Arbitrary<SelectSpec> =>
  fc
    .tuple(selectSpecs(piece), fc.constantFrom('kv', 'query', 'layer'))
    .map(([spec, rows]) => ({ ...spec, scores: { ...spec.scores, rows } }));

/** Returns kept slots `[layer][row]`; one row for all is repeated. */
function kept(piece: Piece, drafts: readonly DraftSelection[], on: Scene): readonly (readonly (readonly number[])[])[] {
  return drafts.map((draft, l) => {
    claim(draft.kept !== undefined, () => `'${piece.label}' kept nothing in layer ${l}`);
    const { rows, slots, data, valid } = rowsOf(draft.kept, on.layers[l]),
      heads = on.layers[l].at.selectRows;
    claim(rows === 1 || rows === heads, () => `kept slots of layer ${l}: expected ${heads} rows or one, got ${rows}`);
    return Array.from({ length: heads }, (_, g) => {
      const r = Math.floor((g * rows) / heads);
      return Array.from(data.subarray(r * slots, r * slots + valid[r]));
    });
  });
}
const run = (piece: Piece, { on, given }: SelectCase, options: LawOptions) =>
  kept(piece, onCpu(piece, on, options, given), on);
type Judge = (chosen: readonly number[], row: SelectionRow, options: SelectorOptions) => void;
type Property = Claim<AnySelector, SelectorOptions>;
const rowsAre =
  (
    judge: Judge,
    how: { readonly budget?: 'some' | 'all' } = {},
    tweak: (spec: SelectSpec) => SelectSpec = (s) => s,
  ): Property =>
  (piece, options = {}) =>
    fc.property(specs(piece).map(tweak), (spec) => {
      const c = realise(spec, how),
        sets = run(piece, c, options);
      c.rows.forEach((heads, l) => heads.forEach((row, g) => judge(sets[l][g], row, options)));
    });
const shown = (set: readonly number[]): string => `[${set.join(', ')}]`;
const count = (flags: readonly boolean[]): number => flags.filter(Boolean).length;

/** Claims about a selector, each a property of it alone. */
export const selector = {
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
  /** Forced slots stay. */
  forced: rowsAre((set, { forced }) =>
    forced.forEach((yes, i) => claim(!yes || has(set, i), () => `slot ${i} is forced, but kept are ${shown(set)}`)),
  ),
  /** Banned slots go. */
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
  /** A budget one slot larger keeps what the smaller one keeps. */
  nested: (piece, options = {}) =>
    fc.property(specs(piece), (spec) => {
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
  ...deviceClaims({
    specs,
    at: (spec, pad) => realise(spec, { pad }),
    left: (piece: AnySelector, drafts, { on }) => kept(piece, drafts, on),
    agree: (got, want, what) => equal(got, want, `kept ${what}`),
  }),
} satisfies Claims<AnySelector, SelectorOptions>;

/** Returns the laws that apply to this selector. */
export const selectorLaws = (piece: AnySelector, options: SelectorOptions = {}): Suite =>
  suite(selector, piece, options, { nested: options.nested !== true }, ['nested', 'size']);
