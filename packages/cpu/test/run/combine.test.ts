import fc from 'fast-check';
import ndarray from 'ndarray';
import type { NdArray } from 'ndarray';
import nops from 'ndarray-ops';
import { expect, test } from 'vitest';
import { as, keys, LOWEST, max, sum, values, weighted, scorer } from '@kv/core';
import { apply } from '@kv/cpu';
import type { Scorer } from '@kv/core';
import { agree } from '../ops/agree.ts';
import { numbers } from '../ops/arrays.ts';
import { ops } from './engine.ts';

/** Scorers that return one channel of a signal. */
const first: Scorer<'first'> = scorer('first', { needs: [as('a', keys)] }, ({ ops: o, a }) =>
  o.reduce('sum', a, 'channels'),
)();
const second: Scorer<'second'> = scorer('second', { needs: [as('b', values)] }, ({ ops: o, b }) =>
  o.reduce('sum', b, 'channels'),
)();
const cases = fc
  .record({ rows: fc.integer({ min: 1, max: 3 }), slots: fc.integer({ min: 1, max: 6 }), seed: fc.nat(2 ** 30) })
  .map(({ rows, slots, seed }) => {
    const next = numbers(seed),
      make = () =>
        ndarray(
          Float32Array.from({ length: rows * slots }, () => next() * 4 - 2),
          [rows, slots, 1],
        );
    return { a: make(), b: make() };
  });
const plane = (x: NdArray): NdArray => x.pick(null, null, 0);
const check = (piece: Scorer, want: (out: NdArray, a: NdArray, b: NdArray) => unknown): void =>
  fc.assert(
    fc.property(cases, ({ a, b }) => {
      const out = ndarray(new Float64Array(a.size), a.shape.slice(0, 2));
      want(out, plane(a), plane(b));
      agree(ops.from(apply(piece, { a, b }).scores!), out, { tolerance: 1e-6 });
    }),
  );

test('sum adds', () => check(sum(first, second), (out, a, b) => nops.add(out, a, b)));
test('max takes the larger', () => check(max(first, second), (out, a, b) => nops.max(out, a, b)));
test('weighted adds multiples', () =>
  check(weighted([0.5, first], [-2, second]), (out, a, b) => {
    nops.muls(out, b, -4);
    nops.addeq(out, a);
    nops.mulseq(out, 0.5);
  }));
test('over nothing: 0, 0 and the lowest finite number, one row', () => {
  const of = (piece: Scorer): number[] => [...apply(piece, { at: { slots: 2, length: 2 } }).scores!.data];
  expect([of(sum() as unknown as Scorer), of(weighted()), of(max() as unknown as Scorer)]).toEqual([
    [0, 0],
    [0, 0],
    [LOWEST, LOWEST],
  ]);
});
test.each([NaN, Infinity])('a weight of %d is an error', (w) =>
  expect(() => weighted([w, first])).toThrow(`weighted: weight must be a finite number, got ${w}`),
);
