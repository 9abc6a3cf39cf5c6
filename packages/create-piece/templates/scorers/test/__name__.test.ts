import fc from 'fast-check';
import ndarray from 'ndarray';
import { expect, test } from 'vitest';
import { apply } from '@kv/cpu';
import { each, scorerLaws } from '@kv/laws';
import { __camel__ } from '../src/index.ts';
import { oracle } from './__name__.oracle.ts';

each(scorerLaws(__camel__()), test);

const sizes = fc.tuple(fc.integer({ min: 1, max: 3 }), fc.integer({ min: 1, max: 9 }), fc.integer({ min: 1, max: 5 }));
const caches = sizes.chain(([heads, slots, dim]) =>
  fc
    .array(fc.float({ min: -100, max: 100, noNaN: true }), {
      minLength: heads * slots * dim,
      maxLength: heads * slots * dim,
    })
    .map((data) => ({ data, shape: [heads, slots, dim] })),
);

test('agrees with the float64 oracle', () => {
  fc.assert(
    fc.property(caches, (values) => {
      const want = oracle(ndarray(Float64Array.from(values.data), values.shape)).data;
      const got = apply(__camel__(), { values }).scores.data;
      expect(got.length).toBe(want.length);
      want.forEach((score, i) => expect(Math.abs(got[i] - score)).toBeLessThanOrEqual(1e-6 * Math.abs(score) + 1e-30));
    }),
  );
});
