import { describe, expect, test } from 'vitest';
import { compose, scorer } from '@kv/core';
import { apply } from '@kv/cpu';
import { each, transformLaws } from '@kv/laws';
import { caote, fastCaote } from '../src/index.ts';

describe.each([caote(), caote({ square: true }), fastCaote()].map((piece) => [piece.label, piece] as const))(
  '%s',
  (_, piece) => {
    each(transformLaws(piece), test);
  },
);

test('negative scores are an error that names who left them', () => {
  expect(() =>
    apply(caote(), { scores: [[1, -1]], values: { data: Float32Array.of(1, 2), shape: [1, 2, 1] } }),
  ).toThrow('caote, layer 0: scores must be weights, finite and at least 0, got -1 in row 0, slot 1');
});

test('scores that may be negative do not compose with it', () => {
  const minus = scorer('minus', {}, ({ ops, at }) =>
    ops.from({ data: new Float32Array(at.slots).fill(-1), shape: [1, at.slots] }),
  )();
  // @ts-expect-error the compiler says the same
  expect(() => compose(minus, caote())).toThrow(
    "'caote' needs weights (scores of at least 0), but 'minus' before it leaves scores that may be negative",
  );
});
