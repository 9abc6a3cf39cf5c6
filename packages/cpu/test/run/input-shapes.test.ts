import { describe, expect, expectTypeOf, test } from 'vitest';
import {
  attentionLast,
  compose,
  id,
  keys,
  mandatory,
  positions,
  scorer,
  values,
  weightScorer,
  weightTransform,
} from '@kv/core';
import { apply } from '@kv/cpu';
import type { ApplyResult, ApplyResultOf, DenseArray, Piece, Policy } from '@kv/core';
import { best, chunks, pyramidal, topK } from './pieces.ts';

const knorm = scorer('knorm', { needs: [keys] }, ({ ops, keys: k }) => ops.sub(0, ops.norm(k)))(),
  last = weightScorer('last', { needs: [attentionLast] }, ({ attention }) => attention)(),
  late = scorer('late', { needs: [keys, positions] }, ({ ops, keys: k, positions: p }) => ops.add(ops.norm(k), p))(),
  drift = weightTransform('drift', { needs: [values] }, ({ ops, scores, values: v }) =>
    ops.distance(ops.matmul(ops.simplex(scores), v), v),
  )();
const cache = { data: new Float32Array(6), shape: [1, 3, 2] };

describe('inputs that do not belong together are named', () => {
  test.each([
    [
      'slots',
      drift,
      { scores: [[0.5, 0.5]], values: cache },
      "the same number of slots in every input, got 2 in 'scores' and 3 in 'values'",
    ],
    [
      'no rows of slots',
      drift,
      { scores: [[1, 2, 3]], values: [[1, 2, 3]] },
      "'values' as [KV heads, slots, channels], got the shape [1, 3]",
    ],
    [
      'heads',
      late,
      {
        keys: cache,
        positions: [
          [0, 1, 2],
          [0, 1, 2],
        ],
      },
      "the same number of KV heads in every input, got 1 in 'keys' and 2 in 'positions'",
    ],
    [
      'rows',
      drift,
      { scores: [[1], [1], [1]], values: { data: [1, 2], shape: [2, 1, 1] } },
      "1 row in 'scores', or one for each of 2 KV heads or of their query heads, got 3",
    ],
    [
      'the place',
      knorm,
      { keys: cache, at: { slots: 4 } },
      "the same number of slots in every input, got 4 in 'at' and 3 in 'keys'",
    ],
    [
      'three levels of scores',
      drift,
      { scores: [[[1]]], values: cache },
      "'scores' as [rows, slots], got the shape [1, 1, 1]",
    ],
  ] as const)('%s', (_, piece, inputs, sentence) => {
    expect(() => apply(piece as Piece, inputs)).toThrow(`${(piece as Piece).label}: expected ${sentence}`);
  });
  test('rows of uneven lengths, and what is no number', () => {
    for (const uneven of [[[1, 2], [3]], [[[1], [2]], [[3]]], [[1, 'x']], [[], [1]], []])
      expect(() => apply(last, { attention: uneven as number[][] })).toThrow(
        "expected 'attention' as rows of equal length",
      );
  });
});
test('values may be given as arrays of arrays', () => {
  const numbers = [
    [
      [0, 0],
      [3, 4],
      [6, 8],
    ],
  ];
  expect(apply(drift, { scores: [[1, 0, 0]], values: numbers }).scores).toEqual(
    apply(drift, { scores: [[1, 0, 0]], values: { data: numbers.flat(2), shape: [1, 3, 2] } }).scores,
  );
});
test('what a piece leaves is there, by its type', () => {
  expectTypeOf(apply(knorm, { keys: cache }).scores).toEqualTypeOf<DenseArray>();
  expectTypeOf(apply(drift, { scores: [[1, 0, 0]], values: cache }).scores).toEqualTypeOf<DenseArray>();
  expectTypeOf(apply(mandatory(), { scores: [[1, 0]] }).scores).toEqualTypeOf<DenseArray>();
  const cut = compose(last, chunks()),
    ranked = compose(last, chunks(), best());
  expectTypeOf<ApplyResultOf<typeof cut>['scores']>().toEqualTypeOf<DenseArray>();
  expectTypeOf<ApplyResultOf<typeof ranked>['scores']>().toEqualTypeOf<DenseArray>();
  expectTypeOf(apply(compose(last, pyramidal(), topK()), { attention: [[1, 0]] }).kept).toEqualTypeOf<
    readonly (readonly number[])[]
  >();
  expectTypeOf(apply(last, { attention: [[1]] }).kept).toEqualTypeOf<ApplyResult['kept']>();
  expectTypeOf(apply(pyramidal(), { budget: 2, at: { slots: 4 } }).scores).toEqualTypeOf<ApplyResult['scores']>();
  expectTypeOf(apply(id, {}).scores).toEqualTypeOf<ApplyResult['scores']>();
  expectTypeOf(apply(knorm as Piece, { keys: cache }).scores).toEqualTypeOf<ApplyResult['scores']>();
  expectTypeOf(apply(compose(knorm, topK()) as Policy, { keys: cache }).kept).toEqualTypeOf<ApplyResult['kept']>();
  // and by what it is
  expect(apply(knorm, { keys: cache }).scores.shape).toEqual([1, 3]);
  expect(apply(mandatory(), { scores: [[1, 0]] }).scores.shape).toEqual([1, 2]);
  expect(apply(compose(last, topK()), { attention: [[1, 0]], budget: 1 }).kept).toEqual([[0]]);
});
