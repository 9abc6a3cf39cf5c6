import fc from 'fast-check';
import type { Piece, ScorePhase } from '@kv/core';
import { agree } from './compare.ts';
import { suite, TOLERANCE } from './law.ts';
import type { Claims, LawOptions, Suite } from './law.ts';
import { random, shuffle } from './random.ts';
import { permute, scene, sceneSpecs } from './scene.ts';
import * as scoring from './scoring.ts';
import { onCpu } from './stage.ts';

type AnyScorer = Piece<'start', ScorePhase>;
/** Options of `scorerLaws`. */
export interface ScorerOptions extends LawOptions {
  /**
   * The score of a slot depends on its place, so equivariance is not required.
   * @defaultValue whether it needs positions, tokens or state of slots or positions
   */
  readonly positional?: boolean | undefined;
}
/** Claims about a scorer, each a property of it alone. */
export const scorer = {
  ...scoring.scoringClaims(
    (_: AnyScorer) => sceneSpecs(),
    (spec, pad) => ({ on: scene(spec, pad) }),
  ),
  /** Permuting the slots permutes the scores. For scorers that do not read places. */
  equivariant: (piece, options = {}) =>
    fc.property(sceneSpecs({ ragged: false }), fc.nat(0xffff), (spec, seed) => {
      const on = scene(spec),
        order = shuffle(spec.slots, random(seed)),
        scores = (s: typeof on) => scoring.scoresOf(piece, onCpu(piece, s, options), s.layers);
      const straight = scores(on),
        moved = scores(permute(on, order));
      moved.forEach((x, i) => {
        if (x.slots === spec.slots)
          agree(`scores of permuted slots, layer ${i}`, x, straight[i], options.tolerance ?? TOLERANCE, order);
      });
    }),
} satisfies Claims<AnyScorer, ScorerOptions>;

/** Returns the laws that apply to this scorer by its declarations. */
export function scorerLaws(piece: AnyScorer, options: ScorerOptions = {}): Suite {
  const { positional = scoring.readsPlaces(piece) } = options;
  return suite(scorer, piece, options, { equivariant: positional, weights: piece.to !== 'weights' }, ['positional']);
}
