import fc from 'fast-check';
import { expect, test } from 'vitest';
import { compose, selector } from '@kv/core';
import { apply } from '@kv/cpu';
import { demotionLaws, each } from '@kv/laws';
import { __camel__ } from '../src/index.ts';
import { oracle } from './__name__.oracle.ts';

each(demotionLaws(__camel__(), { monotone: true }), test);

const best = selector('best', {}, ({ ops, scores, budgets, ...masks }) => ops.select(scores, budgets, masks));
const scores = fc.array(fc.oneof(fc.integer({ min: -3, max: 3 }), fc.float({ noNaN: true, noDefaultInfinity: true })), {
  minLength: 1,
  maxLength: 20,
});

test('agrees with the float64 oracle', () => {
  fc.assert(
    fc.property(scores, fc.nat(22), (row, budget) => {
      const rounded = row.map(Math.fround),
        { kept, levels } = apply(compose(best(), __camel__()), { scores: [rounded], budget });
      expect(levels).toEqual([oracle(rounded, kept[0] ?? [])]);
    }),
  );
});
