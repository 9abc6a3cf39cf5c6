import fc from 'fast-check';
import { compose, demotion as makeDemotion, LEVELS, scoreAllocator, selector } from '@kv/core';
import { compile } from '@kv/core/engine';
import type { Demotion, DraftSelection, Piece, ScoreAllocator } from '@kv/core';
import { equal } from './compare.ts';
import { deviceClaims } from './device.ts';
import { claim, suite } from './law.ts';
import type { Claim, Claims, LawOptions, Suite } from './law.ts';
import { random } from './random.ts';
import type { Scene } from './scene.ts';
import { realise, selectSpecs } from './selection.ts';
import type { SelectCase, SelectionRow } from './selection.ts';
import { onCpu, rowsOf } from './stage.ts';

/** The kept slots of one head, and the level of each. */
interface Head {
  readonly kept: readonly number[];
  readonly levels: readonly number[];
}

/** Keeps the slots of the highest scores, for the piece after it. */
const best = selector('best', {}, ({ ops, scores, budgets, ...masks }) => ops.select(scores, budgets, masks))();
/** Shares nothing out. */
const asAsked = scoreAllocator('asAsked', {}, ({ budgets }) => ({ budgets }))();
/** Gives all heads of a layer together the best of their slots. */
const together = scoreAllocator('together', {}, ({ ops, scores, banned, budgets }) => ({
  budgets: ops.count(ops.less(ops.rank(ops.masked(scores, { banned }), 'all'), ops.reduce('sum', budgets, 'rows'))),
}))();

type After = Demotion | ScoreAllocator;
const after = (...pieces: readonly After[]): Piece =>
  compose(...([best, ...pieces] as unknown as readonly Piece<'start', 'kept'>[])) as Piece;
const specs = (piece: Demotion) => selectSpecs(after(piece));

/** Returns kept slots and their levels, `[layer][head]`. */
const heads = ({ label }: Piece, drafts: readonly DraftSelection[], { layers, spec }: Scene): readonly Head[][] =>
  drafts.map(({ kept, levels }, l) => {
    claim(kept !== undefined && levels !== undefined, () => `'${label}' gave no levels in layer ${l}`);
    const [set, of] = [rowsOf(kept, layers[l]), rowsOf(levels, layers[l])],
      row = (rows: number, g: number): number => Math.floor((g * rows) / spec.kvHeads);
    return Array.from({ length: spec.kvHeads }, (_, g) => {
      const r = row(set.rows, g),
        slots = Array.from(set.data.subarray(r * set.slots, r * set.slots + set.valid[r]));
      return { kept: slots, levels: slots.map((slot) => of.data[row(of.rows, g) * of.slots + slot]) };
    });
  });
const run = (pieces: readonly After[], { on, given }: SelectCase, options: LawOptions): readonly Head[][] => {
  const piece = after(...pieces);
  return heads(piece, onCpu(piece, on, options, given), on);
};
const shown = ({ kept, levels }: Head): string =>
  kept.map((slot, i) => `${slot}:${LEVELS[levels[i]] ?? levels[i]}`).join(' ');

type Property = Claim<Demotion>;
/** A claim about the levels of every head. */
const headsAre =
  (judge: (head: Head, row: SelectionRow, piece: Demotion) => void): Property =>
  (piece, options = {}) =>
    fc.property(specs(piece), (spec) => {
      const c = realise(spec);
      run([piece], c, options).forEach((layer, l) => layer.forEach((head, g) => judge(head, c.rows[l][g], piece)));
    });
/** A claim about the levels that two compositions give the same kept slots. */
const pairs =
  (of: (piece: Demotion) => readonly (readonly After[])[], judge: (a: Head, b: Head) => void): Property =>
  (piece, options = {}) =>
    fc.property(specs(piece), (spec) => {
      const c = realise(spec),
        [a, b] = of(piece).map((pieces) => run(pieces, c, options));
      a.forEach((layer, l) => layer.forEach((head, g) => judge(head, b[l][g])));
    });

/** Every second slot at the coarsest level, the others at the finest. */
const striped = makeDemotion('striped', {}, ({ ops, at, scores }) =>
  ops.add(
    ops.fill(scores, 0),
    ops.from({
      data: Float32Array.from({ length: at.slots }, (_, i) => (i % 2) * (LEVELS.length - 1)),
      shape: [1, at.slots],
    }),
  ),
)();

/** Returns a case with the valid slots of every head permuted. */
function permuted(c: SelectCase): { readonly c: SelectCase; readonly orders: readonly (readonly number[][])[] } {
  const { slots } = c.on.spec,
    orders = c.on.layers.map(({ lengths, seed }, l) => {
      const next = random(seed + 17 + l);
      return lengths.map((n) =>
        Array.from({ length: n }, (_, i) => [next(), i] as const)
          .sort((a, b) => a[0] - b[0])
          .map(([, i]) => i),
      );
    });
  const move = (from: Float32Array, l: number): Float32Array => {
    const to = from.slice();
    orders[l].forEach((order, g) =>
      order.forEach((i, j) => to.set(from.subarray(g * slots + i, g * slots + i + 1), g * slots + j)),
    );
    return to;
  };
  const given = c.given.map(({ scores, forced, banned, ...rest }, l) => ({
    ...rest,
    ...(scores && { scores: move(scores, l) }),
    ...(forced && { forced: move(forced, l) }),
    ...(banned && { banned: move(banned, l) }),
  }));
  return { c: { ...c, given }, orders };
}

const onDevices = deviceClaims({
  specs: selectSpecs,
  at: (spec, pad) => realise(spec, { pad }),
  left: (piece, drafts, { on }) => heads(piece, drafts, on),
  agree: (got, want, what) => equal(got, want, `levels ${what}`),
});

/** Claims about a demotion. */
export const demotion = {
  /** Every kept slot has a level: an index of `LEVELS`. */
  chain: headsAre((head) =>
    head.levels.forEach((level, i) =>
      claim(
        Number.isInteger(level) && level >= 0 && level < LEVELS.length,
        () => `expected levels from 0 to ${LEVELS.length - 1}, got ${level} for slot ${head.kept[i]}`,
      ),
    ),
  ),
  /** What is kept, and in which order, stays as the selector left it. */
  kept: (piece, options = {}) =>
    fc.property(specs(piece), (spec) => {
      const c = realise(spec),
        alone = onCpu(best as Piece, c.on, options, c.given),
        with1 = onCpu(after(piece), c.on, options, c.given);
      with1.forEach(({ kept }, l) => {
        const layer = c.on.layers[l],
          [got, want] = [kept, alone[l].kept].map((of) => of && rowsOf(of, layer));
        equal(got, want, `kept slots of layer ${l}`);
      });
    }),
  /** Of two kept slots, a forced one, else the one of the higher score, is stored at least as finely. */
  order: headsAre((head, { scores, forced }) => {
    const { kept, levels } = head;
    kept.forEach((a, i) =>
      kept.forEach((b, j) => {
        const better = forced[a] === forced[b] ? scores[a] > scores[b] : forced[a];
        claim(
          !better || !(levels[i] > levels[j]),
          () => `slot ${a} comes before slot ${b}, but they are stored as ${shown(head)}`,
        );
      }),
    );
  }),
  /** Of two kept slots that differ in nothing, the lower one is stored at least as finely. */
  ties: headsAre((head, { scores, forced }) => {
    const { kept, levels } = head;
    kept.forEach((a, i) =>
      kept
        .slice(i + 1)
        .forEach((b, j) =>
          claim(
            scores[a] !== scores[b] || forced[a] !== forced[b] || !(levels[i] > levels[i + 1 + j]),
            () => `slots ${a} and ${b} score ${scores[a]} alike, but they are stored as ${shown(head)}`,
          ),
        ),
    );
  }),
  /** After itself it changes nothing. */
  idempotent: pairs(
    (piece) => [[piece, piece], [piece]],
    (twice, once) => equal(twice.levels, once.levels, 'levels after it ran twice'),
  ),
  /** No slot becomes finer than a demotion before it left it. */
  coarser: pairs(
    (piece) => [[striped, piece], [striped]],
    (both, before) => {
      const was = new Map(before.kept.map((slot, i) => [slot, before.levels[i]]));
      both.levels.forEach((level, i) =>
        claim(
          !(level < (was.get(both.kept[i]) ?? 0)),
          () => `expected levels no finer than ${shown(before)}, got ${shown(both)}`,
        ),
      );
    },
  ),
  /** Permuted scores and masks give the levels permuted, where no two slots tie. For demotions that read no signals. */
  equivariant: (piece, options = {}) =>
    fc.property(specs(piece), (spec) => {
      const c = realise(spec),
        tied = c.rows.some((layer) => layer.some(({ scores }) => new Set(scores).size < scores.length));
      fc.pre(!tied);
      const { c: other, orders } = permuted(c),
        [from, to] = [c, other].map((one) => run([piece], one, options));
      to.forEach((layer, l) =>
        layer.forEach((head, g) => {
          const was = new Map(from[l][g].kept.map((slot, i) => [slot, from[l][g].levels[i]])),
            order = orders[l][g];
          head.kept.forEach((slot, i) =>
            claim(
              was.get(order[slot]) === head.levels[i],
              () =>
                `slot ${order[slot]} became ${slot}; expected its level in ${shown(from[l][g])}, got ${shown(head)}`,
            ),
          );
        }),
      );
    }),
  /** No finer level holds more than its share, rounded down, of the kept slots. For demotions that declare shares. */
  shares: headsAre((head, _, piece) => {
    const [shares = {}] = compile(after(piece)).levels ?? [];
    let share = 0;
    LEVELS.forEach((level, at) => {
      share += shares[level] ?? 0;
      const count = head.levels.filter((of) => of <= at).length;
      claim(
        count <= share * head.kept.length + 1e-3,
        () => `expected at most ${share} of ${head.kept.length} slots at ${level} or finer, got ${shown(head)}`,
      );
    });
  }),
  /** An allocator before it that shares nothing out changes nothing. */
  uniform: pairs(
    (piece) => [[asAsked, piece], [piece]],
    (shared, alone) => equal(shared.levels, alone.levels, 'levels after an allocator that shares nothing out'),
  ),
  /** However its levels are shared out over heads, no level or finer one holds more of a layer's slots. */
  total: (piece, options = {}) =>
    fc.property(specs(piece), (spec) => {
      const c = realise(spec),
        [shared, alone] = [[together, piece], [piece]].map((pieces) => run(pieces, c, options));
      shared.forEach((layer, l) =>
        LEVELS.forEach((name, level) => {
          const [got, most] = [layer, alone[l]].map(
            (heads) => heads.flatMap(({ levels }) => levels).filter((of) => of <= level).length,
          );
          claim(
            got <= most,
            () =>
              `expected at most ${most} slots of layer ${l} at ${name} or finer, as without an allocator, got ${got}`,
          );
        }),
      );
    }),
  /** With a larger budget no level or finer one holds fewer slots of a head. Only with `monotone`. */
  monotone: (piece, options = {}) =>
    fc.property(specs(piece), fc.integer({ min: 1, max: 9 }), (spec, more) => {
      const [small, large] = [0, more].map((extra) => run([piece], realise(spec, { more: extra }), options));
      small.forEach((layer, l) =>
        layer.forEach((head, g) =>
          LEVELS.forEach((name, level) => {
            const [least, got] = [head, large[l][g]].map(({ levels }) => levels.filter((of) => of <= level).length);
            claim(
              got >= least,
              () => `expected at least ${least} slots at ${name} or finer with ${more} slots more, got ${got}`,
            );
          }),
        ),
      );
    }),
  /** Numbers beyond a row's valid slots change nothing. */
  padding: (piece, options) => onDevices.padding(after(piece), options),
  /** The same kept slots and scores give the same levels again, and are left unchanged. */
  pure: (piece, options) => onDevices.pure(after(piece), options),
  /** Runs where every host read throws, with the same levels. */
  traced: (piece, options) => onDevices.traced(after(piece), options),
} satisfies Claims<Demotion>;

/** Options of `demotionLaws`. */
export interface DemotionOptions extends LawOptions {
  /** Claims that with a larger budget no level or finer one holds fewer slots. @defaultValue false */
  readonly monotone?: boolean | undefined;
}

/** Returns the laws that apply to this demotion. */
export function demotionLaws(piece: Demotion, options: DemotionOptions = {}): Suite {
  const { needs, steps } = compile(after(piece));
  return suite(
    demotion,
    piece,
    options,
    {
      equivariant: needs.length > 0,
      shares: steps.every(({ kind, shares }) => kind !== 'demotion' || !shares),
      monotone: options.monotone !== true,
    },
    ['monotone'],
  );
}
