import fc from 'fast-check';
import ndarray from 'ndarray';
import { expect, test } from 'vitest';
import { apply } from '@kv/cpu';
import { random } from '../src/index.ts';
import { randomOracle } from './random.oracle.ts';

const positions = fc
  .tuple(fc.integer({ min: 1, max: 3 }), fc.integer({ min: 1, max: 9 }))
  .chain(([heads, slots]) =>
    fc
      .array(fc.oneof(fc.nat(4096), fc.nat(2 ** 32 - 1)), { minLength: heads * slots, maxLength: heads * slots })
      .map((data) => ({ data: Uint32Array.from(data), shape: [heads, slots] })),
  );
const scores = (
  given: { readonly data: Uint32Array; readonly shape: readonly number[] },
  seed = 0,
  layer = 0,
): number[] => Array.from(apply(random({ seed }), { positions: given, at: { layer } }).scores!.data);

test('is the hash of the oracle, bit for bit', () => {
  fc.assert(
    fc.property(positions, fc.nat(2 ** 32 - 1), fc.nat(200), (given, seed, layer) => {
      expect(scores(given, seed, layer)).toEqual(
        Array.from(randomOracle(ndarray(given.data, given.shape), seed, layer).data),
      );
    }),
  );
});

test('a slot keeps its number whatever else is in the cache', () => {
  fc.assert(
    fc.property(fc.uniqueArray(fc.nat(5000), { minLength: 2, maxLength: 12 }), (all) => {
      const one = (list: readonly number[]): number[] =>
        scores({ data: Uint32Array.from(list), shape: [1, list.length] });
      expect(one(all.slice(1))).toEqual(one(all).slice(1));
    }),
  );
});

test('seeds, layers, heads and positions differ, and the numbers fill [0, 1) evenly', () => {
  const many = { data: Uint32Array.from({ length: 4 * 4096 }, (_, i) => i % 4096), shape: [4, 4096] };
  const all = [scores(many), scores(many, 1), scores(many, 0, 1)].flat();
  expect(new Set(all).size).toBeGreaterThan(all.length - 200); // 49,152 draws from 2^24: some 72 collide
  const tenths = new Array<number>(10).fill(0);
  for (const x of all) tenths[Math.floor(x * 10)]++;
  for (const count of tenths) expect(Math.abs(count - all.length / 10)).toBeLessThan(4 * Math.sqrt(all.length * 0.09));
});
