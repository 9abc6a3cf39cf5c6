import fc from 'fast-check';
import type { Piece, ScorePhase, DraftSelection } from '@kv/core';
import { agree, all } from './compare.ts';
import { deviceClaims } from './device.ts';
import type { Case } from './device.ts';
import { claim, lawsOf } from './law.ts';
import type { Claim, Claims } from './law.ts';
import { scene, sceneSpecs } from './scene.ts';
import type { Layer, Scene, SceneSpec } from './scene.ts';
import { onCpu, rowsOf } from './stage.ts';
import type { ResultRows } from './stage.ts';
import { randomScores, scoreSpecs } from './transform.ts';
import type { ScoreSpec } from './transform.ts';

/** A partition of slots into units. */
export type AnyUnit = Piece<ScorePhase, 'units'> | Piece<'weights', 'units'>;

interface Made {
  readonly of: ResultRows;
  readonly scores: ResultRows;
  readonly count: number;
  readonly layer: Layer;
}
const made = (piece: Piece, drafts: readonly DraftSelection[], { layers }: Scene): readonly Made[] =>
  drafts.map(({ units, unitScores }, l) => {
    claim(units !== undefined && unitScores !== undefined, () => `'${piece.label}' left no units in layer ${l}`);
    const layer = layers[l],
      flat = { ...layer, at: { ...layer.at, aligned: true } };
    return {
      of: rowsOf(units.of, layer, 'u32'),
      scores: {
        ...rowsOf(unitScores, flat, 'f32'),
        valid: new Array<number>(unitScores.shape[0]).fill(unitScores.shape[1]),
      },
      count: units.count,
      layer,
    };
  });
const runs = {
  specs: (piece: AnyUnit) =>
    fc.record({ spec: sceneSpecs(), scores: scoreSpecs(piece).map((s) => ({ ...s, rows: 'kv' as const })) }),
  at({ spec, scores }: { readonly spec: SceneSpec; readonly scores: ScoreSpec }, pad?: number) {
    const on = scene(spec, pad);
    return { on, given: randomScores(on, scores, pad) };
  },
  left: (piece: Piece, drafts: readonly DraftSelection[], { on }: Case) => made(piece, drafts, on),
  agree(got: readonly Made[], want: readonly Made[], what: string, tolerance: number): void {
    got.forEach(({ of, scores, count }, l) => {
      agree(`units ${what}`, of, want[l].of, 0);
      agree(`unit scores ${what}`, scores, want[l].scores, tolerance);
      claim(count === want[l].count, () => `expected ${want[l].count} units, got ${count}`);
    });
  },
};
type Property = Claim<AnyUnit>;
const realised =
  (judge: (made: Made) => void): Property =>
  (piece, options = {}) =>
    fc.property(runs.specs(piece), (spec) => {
      const { on, given } = runs.at(spec);
      made(piece, onCpu(piece, on, options, given), on).forEach(judge);
    });
/** A claim about the unit ids of every row. */
const ids = (judge: (of: readonly number[], count: number) => void): Property =>
  realised(({ of, count }) => {
    for (let r = 0; r < of.rows; r++)
      judge(Array.from(of.data.subarray(r * of.slots, r * of.slots + of.valid[r])), count);
  });

const { pure, traced } = deviceClaims(runs);

/** Claims about a unit: a partition of the slots into blocks, with a score for each. */
export const unit = {
  /** The slots of a unit are contiguous: its id never returns later. So blocks are disjoint. */
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
  /** Every slot has a unit, and there are `count` units. */
  cover: ids((of, count) =>
    of.forEach((u, i) =>
      claim(Number.isInteger(u) && u >= 0 && u < count, () => `slot ${i} is in unit ${u} of ${count}`),
    ),
  ),
  /** One finite score per unit, in H, G or 1 rows. */
  scored: realised(({ scores, count, layer: { at } }) => {
    claim(
      scores.slots === count && [1, at.kvHeads, at.queryHeads].includes(scores.rows),
      () =>
        `expected unit scores [${at.queryHeads} | ${at.kvHeads} | 1, ${count}], got [${scores.rows}, ${scores.slots}]`,
    );
    all('unit scores', scores, 'finite', Number.isFinite);
  }),
  pure,
  traced,
} satisfies Claims<AnyUnit>;

/** The laws of a unit. */
export const unitLaws = lawsOf(unit);
