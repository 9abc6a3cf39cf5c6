import fc from 'fast-check';
import { expect, test } from 'vitest';
import { compose, selector } from '@kv/core';
import { apply, attend } from '@kv/cpu';
import { each, foldLaws } from '@kv/laws';
import { __camel__ } from '../src/index.ts';
import { oracle } from './__name__.oracle.ts';

each(foldLaws(__camel__()), test);

const best = selector('best', {}, ({ ops, scores, budgets }) => ops.select(scores, budgets));
const numbers = fc.float({ min: -2, max: 2, noNaN: true });
const pair = fc.tuple(numbers, numbers);
const slots = fc.array(fc.record({ key: pair, value: pair }), { minLength: 2, maxLength: 9 });

test('agrees with the float64 oracle', () => {
  fc.assert(
    fc.property(slots, pair, fc.nat(8), (all, query, more) => {
      const budget = 1 + (more % (all.length - 1)), // at least one slot leaves: the last ones
        piece = __camel__();
      const { states } = apply(compose(best(), piece), {
        scores: [all.map((_, slot) => -slot)],
        keys: [all.map(({ key }) => key)],
        values: [all.map(({ value }) => value)],
        budget,
      });
      const { masses, values } = attend(piece, { queries: [[query]], positions: [[all.length]], ...states });
      const want = oracle(query, all.slice(budget));
      expect(masses.data[0]).toBeCloseTo(want.mass, 4);
      want.value.forEach((x, c) => expect(values.data[c]).toBeCloseTo(x, 4));
    }),
  );
});
