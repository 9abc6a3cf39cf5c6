import fc from 'fast-check';
import { expect, test } from 'vitest';
import { apply } from '@kv/cpu';
import { each, scorerLaws, selectorLaws } from '@kv/laws';
import { __camel__, __camel__Norm, __camel__Top } from '../src/index.ts';
import { oracle } from './__name__.oracle.ts';

each(scorerLaws(__camel__Norm()), test);
each(selectorLaws(__camel__Top(), { nested: true }), test);

const lengths = fc.array(fc.integer({ min: 0, max: 9 }), { minLength: 1, maxLength: 20 });

test('agrees with the float64 oracle', () => {
  fc.assert(
    fc.property(lengths, fc.integer({ min: 1, max: 22 }), (row, budget) => {
      const values = { data: row.flatMap((x) => [0.6 * x, 0.8 * x]), shape: [1, row.length, 2] };
      expect(apply(__camel__(), { values, budget }).kept).toEqual([oracle(row, budget)]);
    }),
  );
});
