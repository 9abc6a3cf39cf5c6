import fc from 'fast-check';
import { compose, id, pool, softmax, zScore } from '@kv/core';
import { compile } from '@kv/core/engine';
import type { AnyPiece, Piece, ScorePhase } from '@kv/core';
import { agree } from './compare.ts';
import type { Case } from './device.ts';
import { claim, suite, TOLERANCE } from './law.ts';
import type { Claims, LawOptions, Suite } from './law.ts';
import { random, weights, WEIGHTS } from './random.ts';
import type { WeightKind } from './random.ts';
import { scene, sceneSpecs } from './scene.ts';
import type { Scene, SceneSpec } from './scene.ts';
import * as scoring from './scoring.ts';
import { onCpu } from './stage.ts';
import type { StartNumbers } from './stage.ts';

/** A transform of scores. */
export type AnyTransform = Piece<ScorePhase, ScorePhase | 'same'> | Piece<'weights', ScorePhase | 'same'>;

/** Scores to start from: their kind of rows, and whether they may be negative. */
export interface ScoreSpec {
  readonly rows: 'query' | 'kv' | 'layer';
  readonly phase: ScorePhase;
  readonly kind: WeightKind;
  readonly coarse: boolean;
}
export const scoreSpecs = (piece: Piece): fc.Arbitrary<ScoreSpec> =>
  fc.record({
    rows: fc.constantFrom('query', 'kv', 'layer'),
    phase: piece.from.includes('scores') ? fc.constantFrom('scores', 'weights') : fc.constant('weights'),
    kind: fc.constantFrom(...WEIGHTS),
    coarse: fc.boolean(),
  });
/** Random scores of every layer, `[H | G | 1, n]`; a ragged layer has no layer row. */
export function randomScores(
  { spec, layers }: Scene,
  { rows, phase, kind, coarse }: ScoreSpec,
  pad = 0,
): readonly (StartNumbers & Required<Pick<StartNumbers, 'scores'>>)[] {
  const count = rows === 'query' ? spec.kvHeads * spec.group : rows === 'layer' && !spec.ragged ? 1 : spec.kvHeads;
  return layers.map(({ lengths, seed }) => {
    const next = random(seed + 3),
      data = new Float32Array(count * spec.slots).fill(pad);
    for (let r = 0; r < count; r++) {
      const n = count === 1 ? spec.slots : lengths[Math.floor((r * lengths.length) / count)];
      const row = weights(kind, n, next).map((x) => (phase === 'weights' ? x : (x - 0.5) * 8));
      data.set(coarse ? row.map((x) => Math.round(x * 8) / 8) : row, r * spec.slots);
    }
    return { rows: count, scores: data };
  });
}

type Spec = { readonly spec: SceneSpec; readonly scores: ScoreSpec };
const cases = (piece: AnyTransform): fc.Arbitrary<Spec> => fc.record({ spec: sceneSpecs(), scores: scoreSpecs(piece) });
const at = ({ spec, scores }: Spec, pad = 0) => {
  const on = scene(spec, pad);
  return { on, given: randomScores(on, scores, pad) };
};
function agreeing(
  what: string,
  a: AnyPiece,
  b: AnyPiece,
  { on, given }: Case,
  tolerance: number,
  options: LawOptions,
): void {
  const [x, y] = [a, b].map((piece) => scoring.results(piece, onCpu(piece, on, options, given), on.layers));
  x.forEach(([name, rows], i) => agree(`${what}, ${name}`, rows, y[i][1], tolerance));
}

const order = (a: number, b: number): number => Number(a > b) - Number(a < b);
const WORDS = ['falling', 'equal', 'rising'] as const;

/** Claims about a transform. */
export const transform = {
  ...scoring.scoringClaims(cases, at),
  /** `id ∘ f = f ∘ id = f`: the same label, atoms and scores. */
  unit: (piece, options = {}) =>
    fc.property(cases(piece), (c) => {
      for (const same of [compose(id, piece as AnyPiece), compose(piece as AnyPiece, id)] as Piece[]) {
        claim(
          same.label === piece.label && same.atoms.length === piece.atoms.length,
          () =>
            `expected '${piece.label}' with ${piece.atoms.length} atoms, got '${same.label}' with ${same.atoms.length}`,
        );
        agreeing('composed with id', same, piece, at(c), 0, options);
      }
    }),
  /** `(f ∘ g) ∘ h = f ∘ (g ∘ h)`, also if the two halves run one after the other. */
  associative: (piece, options = {}) =>
    fc.property(cases(piece), (c) => {
      const before: AnyPiece = piece.from.includes('scores' as never)
          ? pool({ kernel: 3 })
          : compose(pool({ kernel: 3 }), softmax()),
        after: AnyPiece = zScore(),
        f = piece as AnyPiece,
        on = at(c);
      agreeing('regrouped', compose(compose(before, f), after), compose(before, compose(f, after)), on, 0, options);
      const half = scoring
        .scoresOf(before, onCpu(before, on.on, options, on.given), on.on.layers)
        .map(({ rows, data }) => ({ rows, scores: data as Float32Array }));
      const whole = scoring.scoresOf(f, onCpu(compose(before, f, after), on.on, options, on.given), on.on.layers);
      scoring
        .scoresOf(f, onCpu(compose(f, after), on.on, options, half), on.on.layers)
        .forEach((rows, i) => agree('one after the other', rows, whole[i], options.tolerance ?? TOLERANCE));
    }),
  /** Weights in, weights out. For transforms that leave weights. */
  weights: (piece, options = {}) =>
    fc.property(
      cases(piece).filter(({ scores }) => piece.to !== 'same' || scores.phase === 'weights'),
      (c) => scoring.atLeast0(piece, at(c), options),
    ),
  /** Order and ties of every row stay, and so does every top-k. For transforms that declare it. */
  monotone: (piece, options = {}) =>
    fc.property(
      cases(piece).map((c) => ({ ...c, scores: { ...c.scores, coarse: true } })),
      (c) => {
        const on = at(c),
          out = scoring.scoresOf(piece, onCpu(piece, on.on, options, on.given), on.on.layers);
        out.forEach(({ rows, slots, data, valid }, l) => {
          const from = on.given[l];
          claim(rows === from.rows, () => `layer ${l}: expected ${from.rows} rows, got ${rows}`);
          for (let r = 0; r < rows; r++)
            for (let i = 0; i < valid[r]; i++)
              for (let j = 0; j < i; j++) {
                const was = order(from.scores[r * slots + i], from.scores[r * slots + j]),
                  is = order(data[r * slots + i], data[r * slots + j]);
                claim(
                  was === is,
                  () => `layer ${l}, row ${r}: slots ${j} and ${i} were ${WORDS[was + 1]}, now ${WORDS[is + 1]}`,
                );
              }
        });
      },
    ),
} satisfies Claims<AnyTransform>;

/** Returns the laws that apply to this transform by its declarations. */
export function transformLaws(piece: AnyTransform, options: LawOptions = {}): Suite {
  const { steps } = compile(piece as Piece),
    monotone = steps.length > 0 && steps.every((s) => s.monotone);
  return suite(transform, piece, options, { weights: piece.to === 'scores', monotone: !monotone });
}
