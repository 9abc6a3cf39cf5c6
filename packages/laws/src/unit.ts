import fc from 'fast-check';
import { cpu } from '@kv/core';
import type { Draft, Piece, Scored } from '@kv/core';
import { agree, all } from './compare.ts';
import { claim, suite } from './law.ts';
import type { Claims, LawOptions, Suite } from './law.ts';
import { scene, sceneSpecs } from './scene.ts';
import type { Layer, Scene } from './scene.ts';
import { onCpu, onTrace, play, rowsOf, stage } from './stage.ts';
import type { Given, Rows } from './stage.ts';
import { given, scoreSpecs } from './transform.ts';

export type AnyUnit = Piece<Scored, 'units'> | Piece<'weights', 'units'>;

interface Made {
  readonly of: Rows;
  readonly scores: Rows;
  readonly count: number;
  readonly layer: Layer;
}
const made = (piece: Piece, drafts: readonly Draft[], { layers }: Scene): readonly Made[] =>
  drafts.map(({ units, unitScores }, l) => {
    claim(units !== undefined && unitScores !== undefined, () => `'${piece.label}' left no units in layer ${l}`);
    const layer = layers[l],
      flat = { ...layer, at: { ...layer.at, aligned: true } };
    return {
      of: rowsOf(units!.of, layer),
      scores: {
        ...rowsOf(unitScores!, flat),
        valid: new Array<number>(unitScores!.shape[0]).fill(unitScores!.shape[1]),
      },
      count: units!.count,
      layer,
    };
  });
type Case = { readonly on: Scene; readonly given: readonly Given[] };
const cases = (
  piece: Piece,
): fc.Arbitrary<{ spec: Parameters<typeof scene>[0]; scores: Parameters<typeof given>[1] }> =>
  fc.record({ spec: sceneSpecs(), scores: scoreSpecs(piece).map((s) => ({ ...s, rows: 'kv' as const })) });
type Property = Claims<'any', AnyUnit>['any'];
const realised =
  (judge: (piece: Piece, c: Case, options: LawOptions) => void): Property =>
  (piece, options = {}) =>
    fc.property(cases(piece), ({ spec, scores }) => {
      const on = scene(spec);
      judge(piece, { on, given: given(on, scores) }, options);
    });
/** A claim about the unit ids of every row. */
const ids = (judge: (of: readonly number[], count: number) => void): Property =>
  realised((piece, { on, given }, options) => {
    for (const { of, count } of made(piece, onCpu(piece, on, options, given), on))
      for (let r = 0; r < of.rows; r++)
        judge(Array.from(of.data.subarray(r * of.slots, r * of.slots + of.valid[r])), count);
  });
const compare = (a: readonly Made[], b: readonly Made[]): void =>
  a.forEach(({ of, scores, count }, l) => {
    agree('units', of, b[l].of, 0);
    agree('unit scores', scores, b[l].scores, 0);
    claim(count === b[l].count, () => `expected ${b[l].count} units, got ${count}`);
  });

export type UnitLaw = 'contiguous' | 'ordered' | 'cover' | 'scored' | 'pure' | 'traced';
/** Claims about a unit: a partition of the slots into blocks, with a score for each. */
export const unit: Claims<UnitLaw, AnyUnit> = {
  /** The slots of a unit stand side by side: ids never come back. So blocks are disjoint. */
  contiguous: ids((of) =>
    of.forEach((u, i) =>
      claim(
        i === 0 || u === of[i - 1] || !of.slice(0, i).includes(u),
        () => `unit ${u} comes back at slot ${i}: ${of.join(' ')}`,
      ),
    ),
  ),
  /** Units are numbered in the order in which they begin. */
  ordered: ids((of) => {
    const begin = [...new Set(of)];
    begin.forEach((u, i) => claim(i === 0 || u > begin[i - 1], () => `units begin in the order ${begin.join(' ')}`));
  }),
  /** Every slot has a unit, and there are as many as `count` says. */
  cover: ids((of, count) =>
    of.forEach((u, i) =>
      claim(Number.isInteger(u) && u >= 0 && u < count, () => `slot ${i} is in unit ${u} of ${count}`),
    ),
  ),
  /** One finite score a unit, in H, G or 1 rows. */
  scored: realised((piece, { on, given }, options) => {
    for (const {
      scores,
      count,
      layer: { at },
    } of made(piece, onCpu(piece, on, options, given), on)) {
      claim(
        scores.slots === count && [1, at.kvHeads, at.queryHeads].includes(scores.rows),
        () =>
          `expected unit scores [${at.queryHeads} | ${at.kvHeads} | 1, ${count}], got [${scores.rows}, ${scores.slots}]`,
      );
      all('unit scores', scores, 'finite', Number.isFinite);
    }
  }),
  /** The same scores and signals give the same units again. */
  pure: realised((piece, { on, given }, options) => {
    const set = stage(on, cpu.ops, options, given);
    compare(made(piece, play(piece, set, cpu.ops), on), made(piece, play(piece, set, cpu.ops), on));
  }),
  /** Runs where every host read throws, with the same result. */
  traced: realised((piece, { on, given }, options) =>
    compare(made(piece, onTrace(piece, on, options, given), on), made(piece, onCpu(piece, on, options, given), on)),
  ),
};

/** The laws of a unit. */
export const unitLaws = (piece: AnyUnit, options: LawOptions = {}): Suite => suite(unit, piece, options);
