import fc from 'fast-check';
import type { Piece, Scored } from '@kv/core';
import { agree } from './compare.ts';
import { suite, TOLERANCE } from './law.ts';
import type { Claims, LawOptions, Suite } from './law.ts';
import { random, shuffled } from './random.ts';
import { permuted, scene, sceneSpecs } from './scene.ts';
import * as scoring from './scoring.ts';
import { onCpu } from './stage.ts';

type AnyScorer = Piece<'start', Scored>;
export interface ScorerOptions extends LawOptions {
  /**
   * The score of a slot depends on where it stands, so no equivariance is asked for. @defaultValue whether it needs
   * positions, tokens or state of slots or positions
   */
  readonly positional?: boolean | undefined;
}
type Check = (piece: Piece, on: scoring.ScoreCase, options: LawOptions) => void;
const onScenes =
  (check: Check) =>
  (piece: AnyScorer, options: ScorerOptions = {}): fc.IRawProperty<unknown> =>
    fc.property(sceneSpecs(), (spec) => check(piece, { on: scene(spec) }, options));

export type ScorerLaw = 'shape' | 'finite' | 'pure' | 'traced' | 'padding' | 'floor' | 'equivariant' | 'weights';
/** Claims about a scorer, each a property of it alone. */
export const scorer: Claims<ScorerLaw, AnyScorer, ScorerOptions> = {
  /** Scores have one column a slot, in H, G or 1 rows; masks likewise, of 0 and 1. */
  shape: onScenes(scoring.shape),
  /** Every valid score is a finite number. */
  finite: onScenes(scoring.finite),
  /** The same signals give the same bits again, and are left as they were. */
  pure: onScenes(scoring.pure),
  /** Runs where every host read throws, with the same result. */
  traced: onScenes(scoring.traced),
  /** What stands beyond a row's valid slots changes nothing. */
  padding: (piece, options = {}) =>
    fc.property(sceneSpecs(), (spec) => scoring.padding(piece, { on: scene(spec) }, { on: scene(spec, NaN) }, options)),
  /** No head has more forced slots than the declared floor. */
  floor: onScenes(scoring.floor),
  /** Permuting the slots permutes the scores. For scorers that read no places. */
  equivariant: (piece, options = {}) =>
    fc.property(sceneSpecs({ ragged: false }), fc.nat(0xffff), (spec, seed) => {
      const on = scene(spec),
        order = shuffled(spec.slots, random(seed)),
        scores = (s: typeof on) => scoring.scoresOf(piece, onCpu(piece, s, options), s.layers);
      const straight = scores(on),
        moved = scores(permuted(on, order));
      moved.forEach((x, i) => {
        if (x.slots === spec.slots)
          agree(`scores of permuted slots, layer ${i}`, x, straight[i], options.tolerance ?? TOLERANCE, order);
      });
    }),
  /** Weights are at least 0. For scorers that leave weights. */
  weights: onScenes(scoring.atLeast0),
};

/** The laws that hold for this scorer by its declarations. */
export function scorerLaws(piece: AnyScorer, options: ScorerOptions = {}): Suite {
  const { positional = scoring.readsPlaces(piece) } = options;
  return suite(scorer, piece, options, { equivariant: positional, weights: piece.to !== 'weights' });
}
