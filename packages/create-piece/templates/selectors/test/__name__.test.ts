import fc from 'fast-check';
import { expect, test } from 'vitest';
import { apply } from '@kv/cpu';
import { each, selectorLaws } from '@kv/laws';
import { __camel__ } from '../src/index.ts';
import { oracle } from './__name__.oracle.ts';

each(selectorLaws(__camel__(), { nested: true }), test);

const scores = fc.array(fc.oneof(fc.integer({ min: -3, max: 3 }), fc.float({ noNaN: true, noDefaultInfinity: true })), {
  minLength: 1,
  maxLength: 20,
});

test('agrees with the float64 oracle', () => {
  fc.assert(
    fc.property(scores, fc.nat(22), (row, budget) => {
      const rounded = row.map(Math.fround);
      expect(apply(__camel__(), { scores: [rounded], budget }).kept).toEqual([oracle(rounded, budget)]);
    }),
  );
});
