import fc from 'fast-check';
import { expect, test } from 'vitest';
import { descending, nth, numbersFor } from '../src/cpu/radix.ts';

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
        const n = some.length * copies,
          k = 1 + (seed % n);
        numbersFor(n).set(Array.from({ length: n }, (_, i) => some[i % some.length]));
        const sorted = Array.from(numbersFor(n).subarray(0, n)).sort((a, b) => b - a),
          border = sorted[k - 1];
        expect(nth(n, k)).toEqual({
          border: border + 0,
          ties: sorted.slice(0, k).filter((x) => x === border).length,
        });
      },
    ),
    { numRuns: 300 },
  );
});

test('numbers that differ in their last bits alone are told apart', () => {
  const near = (i: number): number => 1 + i * 2 ** -23;
  for (const k of [1, 700, 1500]) {
    numbersFor(1500).set(Array.from({ length: 1500 }, (_, i) => near((i * 7) % 1500)));
    expect(nth(1500, k).border).toBe(Math.fround(near(1500 - k)));
  }
});

test('places sort by what stands there, ties in the order given', () => {
  fc.assert(
    fc.property(
      fc.array(number, { minLength: 1, maxLength: 40 }),
      fc.array(fc.nat(), { maxLength: 200 }),
      (some, picks) => {
        const data = Float32Array.from(some),
          places = Uint32Array.from(picks, (x) => x % some.length),
          expected = Array.from(places).sort((a, b) => data[b] - data[a] || 0);
        expect(Array.from(descending(data, places))).toEqual(expected);
      },
    ),
  );
});
