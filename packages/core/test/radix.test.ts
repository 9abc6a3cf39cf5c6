import fc from 'fast-check';
import { expect, test } from 'vitest';
import { nth } from '../src/cpu/nth.ts';

const number = fc.oneof(
  { weight: 4, arbitrary: fc.float({ noNaN: true }) },
  fc.constantFrom(0, -0, 1, -1, 2 ** -149, -(2 ** -149), Infinity, -Infinity),
);

test('the k-th largest is that of a sort, few numbers or many, with ties, zeros of both signs, subnormals and infinities', () => {
  fc.assert(
    fc.property(
      fc.array(number, { minLength: 1, maxLength: 40 }),
      fc.integer({ min: 1, max: 100 }),
      fc.nat(),
      (some, copies, seed) => {
        const numbers = Float32Array.from({ length: some.length * copies }, (_, i) => some[i % some.length]),
          k = 1 + (seed % numbers.length);
        const before = numbers.slice();
        expect(nth(numbers, k) + 0).toBe([...some].sort((a, b) => b - a)[Math.floor((k - 1) / copies)] + 0);
        expect(numbers).toEqual(before);
      },
    ),
    { numRuns: 300 },
  );
});
