import fc from 'fast-check';
import { expect, test } from 'vitest';
import { compose, selector } from '@kv/core';
import { apply } from '@kv/cpu';
import { each, refitLaws } from '@kv/laws';
import { __camel__ } from '../src/index.ts';
import { oracle } from './__name__.oracle.ts';

each(refitLaws(__camel__({ queries: 4 })), test);

const best = selector('best', {}, ({ ops, scores, budgets }) => ops.select(scores, budgets));
const numbers = fc.float({ min: -2, max: 2, noNaN: true });
const vectors = (most: number) => fc.array(fc.tuple(numbers, numbers), { minLength: 1, maxLength: most });

test('agrees with the float64 oracle', () => {
  fc.assert(
    fc.property(vectors(3), vectors(9), fc.nat(8), fc.constantFrom(undefined, 0.5), (queries, keys, more, softcap) => {
      const budget = 1 + (more % keys.length),
        scores = keys.map((_, slot) => -slot); // the first ones stay
      const { kept, biases } = apply(compose(best(), __camel__({ queries: queries.length })), {
        ...{ scores: [scores], queries: [queries], keys: [keys], budget },
        // the queries come after the slots
        at: { length: keys.length + queries.length, ...(softcap !== undefined && { softcap }) },
      });
      const want = oracle(queries, keys, kept[0]!, softcap);
      for (const slot of kept[0]!) expect(biases!.data[slot]).toBeCloseTo(want, 4);
    }),
  );
});

test('no queries are an error', () => {
  expect(() => __camel__({ queries: 0 })).toThrow('queries');
});
