import { LOWEST, max as largest, sum as total, weighted as weighing, scorer } from '@kv/core';
import type { Piece } from '@kv/core';
import { max, sum, weightedClaims } from '../../src/combination.ts';
import type { Combination, WeightedCombination } from '../../src/combination.ts';
import { field } from './field.ts';
import type { Field } from './field.ts';

type S = Parameters<Combination>[number];
const constant = (value: number): S =>
  scorer('constant', {}, ({ ops, at }) =>
    ops.from({ data: new Float32Array(at.slots).fill(value), shape: [1, at.slots] }),
  )();
const mean: Combination = (first, ...rest) =>
  rest.reduce<Piece>((a, b) => weighing([0.5, a as S], [0.5, b]), first) as S;
const over =
  (nothing: number, join: Combination): Combination =>
  (...s) =>
    s.length === 0 ? constant(nothing) : join(...s);
const first: Combination = (a) => a;

export const sums: Field = field('sum', sum, {
  good: total as Combination,
  mutants: { zero: over(1, total as Combination), commutative: over(0, first), associative: over(0, mean) },
});
export const maxima: Field = field('max', max, {
  good: largest as Combination,
  mutants: {
    zero: over(0, largest as Combination),
    commutative: over(LOWEST, first),
    associative: over(LOWEST, mean),
    idempotent: over(LOWEST, total as Combination),
  },
});

const weighs = (f: WeightedCombination): WeightedCombination => f;
export const weightedSums: Field = field('weighted', weightedClaims, {
  good: weighing as WeightedCombination,
  mutants: {
    zero: weighs((...t) => (t.length === 0 ? constant(1) : weighing(...t))),
    unit: weighs((...t) => weighing(...t.map(([w, s]) => [2 * w, s] as const))),
    linear: weighs((...t) => weighing(...t.map(([w, s]) => [w * w, s] as const))),
    commutative: weighs((...t) => weighing(...t.slice(0, Math.max(1, t.length - 1)))),
  },
});
