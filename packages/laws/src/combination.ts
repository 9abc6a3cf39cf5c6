import fc from 'fast-check';
import { LOWEST, scorer } from '@kv/core';
import type { Piece, ScorePhase } from '@kv/core';
import { agree, all } from './compare.ts';
import { lawsOf, TOLERANCE } from './law.ts';
import type { Claim, Claims, LawOptions } from './law.ts';
import { random } from './random.ts';
import { scene, sceneSpecs } from './scene.ts';
import type { Scene } from './scene.ts';
import { scoresOf } from './scoring.ts';
import { onCpu } from './stage.ts';
import type { ResultRows } from './stage.ts';

type AnyScorer = Piece<'start', ScorePhase>;
/** A function from scorers to one scorer: `sum`, `max`. */
export type Combination = (...scorers: AnyScorer[]) => AnyScorer;
/** A function from weighted scorers to one scorer. */
export type WeightedCombination = (...terms: (readonly [weight: number, scorer: AnyScorer])[]) => AnyScorer;

/** A scorer with fixed random scores in KV rows. */
const part = (name: string, seed: number): AnyScorer =>
  scorer(name, {}, ({ ops, at }) => {
    const next = random(seed + at.layer);
    return ops.from({
      data: Float32Array.from({ length: at.kvHeads * at.slots }, () => (next() - 0.5) * 8),
      shape: [at.kvHeads, at.slots],
    });
  })();
interface Parts {
  readonly on: Scene;
  readonly a: AnyScorer;
  readonly b: AnyScorer;
  readonly c: AnyScorer;
}
const parts: fc.Arbitrary<Parts> = fc.record({ spec: sceneSpecs(), seed: fc.nat(0xffff) }).map(({ spec, seed }) => ({
  on: scene(spec),
  a: part('a', seed),
  b: part('b', seed + 101),
  c: part('c', seed + 202),
}));
const scores = (piece: AnyScorer, on: Scene): readonly ResultRows[] => scoresOf(piece, onCpu(piece, on, {}), on.layers);
const alike = (on: Scene, a: AnyScorer, b: AnyScorer, { tolerance = TOLERANCE }: LawOptions): void => {
  const y = scores(b, on);
  scores(a, on).forEach((x, l) => agree(`${a.label} against ${b.label}, layer ${l}`, x, y[l], tolerance));
};
const zero =
  (nothing: number): Claim<() => AnyScorer> =>
  (join) =>
    fc.property(parts, ({ on }) =>
      scores(join(), on).forEach((x) => all('a combination of nothing', x, String(nothing), (s) => s === nothing)),
    );
const commutative: Claim<Combination> = (join, options = {}) =>
  fc.property(parts, ({ on, a, b }) => alike(on, join(a, b), join(b, a), options));
const associative: Claim<Combination> = (join, options = {}) =>
  fc.property(parts, ({ on, a, b, c }) => {
    alike(on, join(join(a, b), c), join(a, join(b, c)), options);
    alike(on, join(a, b, c), join(a, join(b, c)), options);
  });
const idempotent: Claim<Combination> = (join) =>
  fc.property(parts, ({ on, a }) => alike(on, join(a, a), a, { tolerance: 0 }));

/** Claims about a sum: 0 if empty, commutative, associative. */
export const sum = {
  zero: zero(0),
  commutative,
  associative,
} satisfies Claims<Combination>;
/** Claims about a maximum: the lowest finite number if empty, commutative, associative, idempotent. */
export const max = {
  zero: zero(LOWEST),
  commutative,
  associative,
  idempotent,
} satisfies Claims<Combination>;
/**
 * Claims about a weighted sum: 0 if empty, the scorer itself for a single one of weight 1, linear in the weights,
 * independent of the order of terms.
 */
export const weightedClaims = {
  zero: zero(0),
  unit: (join) => fc.property(parts, ({ on, a }) => alike(on, join([1, a]), a, { tolerance: 0 })),
  linear: (join, { tolerance = TOLERANCE } = {}) => {
    const weight = fc.integer({ min: -8, max: 8 }).map((x) => x / 4),
      pair = fc.tuple(weight, weight);
    return fc.property(parts, pair, pair, weight, ({ on, a, b }, [p, q], [r, s], t) => {
      const [x, y, z] = [join([p, a], [q, b]), join([r, a], [s, b]), join([p + t * r, a], [q + t * s, b])].map(
        (piece) => scores(piece, on),
      );
      z.forEach((rows, l) =>
        agree(
          'weights p + t r',
          rows,
          { ...rows, data: x[l].data.map((v, i) => v + t * y[l].data[i]) as Float32Array },
          tolerance * 8,
        ),
      );
    });
  },
  commutative: (join, options = {}) =>
    fc.property(parts, ({ on, a, b }) => alike(on, join([2, a], [-3, b]), join([-3, b], [2, a]), options)),
} satisfies Claims<WeightedCombination>;

/** Laws of the sum of scorers. */
export const sumLaws = lawsOf(sum);
/** Laws of the maximum of scorers. */
export const maxLaws = lawsOf(max);
/** Laws of the weighted sum of scorers. */
export const weightedLaws = lawsOf(weightedClaims);
