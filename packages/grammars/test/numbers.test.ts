import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { Node } from '../src/schema/node.ts';
import { numbersWithin } from '../src/schema/numbers.ts';

/** A part of a grammar as a regular expression. */
function expression(node: Node): string {
  switch (node.is) {
    case 'text':
      return node.text.replace('.', '\\.');
    case 'chars':
      return `[${node.ranges.map(([from, to]) => `${String.fromCharCode(from)}-${String.fromCharCode(to)}`).join('')}]`;
    case 'sequence':
      return node.parts.map(expression).join('');
    case 'choice':
      return node.options.length === 0 ? '[]' : `(?:${node.options.map(expression).join('|')})`;
    case 'repeat':
      return `(?:${expression(node.part)}){${node.least},${node.most}}`;
    case 'rule':
      throw new Error('numbers have no rules');
  }
}

/** Zero and its neighbours often: bounds there have no digits of their own. */
const near = fc.oneof(
    fc.constantFrom(0, 0.5, -0.5, 1, -1, 9, 10, -10),
    fc.integer({ min: -120, max: 120 }),
    fc.integer({ min: -1200, max: 1200 }).map((n) => n / 10),
  ),
  range = fc.record(
    { least: near, most: near, leastOut: fc.boolean(), mostOut: fc.boolean() },
    { requiredKeys: ['leastOut', 'mostOut'] },
  );

test('a number is let through where its bounds let it through, exclusive ones at zero too', () => {
  fc.assert(
    fc.property(range, near, fc.boolean(), fc.nat(3), (range, free, whole, at) => {
      const { least = -Infinity, most = Infinity, leastOut, mostOut } = range,
        value = [free, least, most, 0].filter(Number.isFinite).at(at) ?? free,
        fits =
          (leastOut ? value > least : value >= least) &&
          (mostOut ? value < most : value <= most) &&
          (!whole || Number.isInteger(value));
      const taken = new RegExp(`^(?:${expression(numbersWithin(range, whole) as Node)})$`);
      expect(taken.test(String(value)), `${value} in ${taken}`).toBe(fits);
    }),
    { numRuns: 1000 },
  );
});

/** Bounds of 16 digits and more, as schemas give whole numbers that JavaScript counts. */
const far = fc
  .double({ min: 1e15, max: 1e300, noDefaultInfinity: true, noNaN: true })
  .map((x) => (x < Number.MAX_SAFE_INTEGER ? Number.MAX_SAFE_INTEGER : x));
test('a bound beyond every number of 15 digits lets them all through, and one that none reaches is told', () => {
  fc.assert(
    fc.property(range, near, fc.boolean(), far, fc.boolean(), (range, free, whole, x, above) => {
      const { least, most, leastOut, mostOut } = range,
        near = above
          ? { ...(least !== undefined && { least }), leastOut }
          : { ...(most !== undefined && { most }), mostOut },
        texts = [near, above ? { ...near, most: x, mostOut } : { ...near, least: -x, leastOut }].map(
          (one) => new RegExp(`^(?:${expression(numbersWithin(one, whole) as Node)})$`),
        );
      for (const value of [free, 0, 999999999999999, -999999999999999, 123456789])
        expect(texts[1]!.test(String(value))).toBe(texts[0]!.test(String(value)));
      expect(numbersWithin(above ? { least: x } : { most: -x }, whole)).toBeUndefined();
    }),
  );
});
