import fc from 'fast-check';
import { expect, test } from 'vitest';
import { apply } from '@kv/cpu';
import type { Piece, Tokens } from '@kv/core';
import { frequency, rarity } from '../src/index.ts';
import { occurrences, rarityOracle } from './rarity.oracle.ts';

const TOLERANCE = 1e-6;
const text = (ids: readonly number[]): Tokens => ({ ids, text: '', offsets: [] });
/** Ids of a sequence, how many of them have been seen, and the positions that are still in the cache. */
const contexts = fc
  .array(fc.nat(6), { minLength: 1, maxLength: 40 })
  .chain((ids) => fc.record({ ids: fc.constant(ids), seen: fc.integer({ min: 1, max: ids.length }) }))
  .chain(({ ids, seen }) =>
    fc.record({
      ids: fc.constant(ids),
      seen: fc.constant(seen),
      kept: fc.subarray(
        Array.from({ length: seen }, (_, i) => i),
        { minLength: 1 },
      ),
    }),
  );

function agrees(piece: Piece, oracle: (ids: readonly number[]) => { get(i: number): number }): void {
  fc.assert(
    fc.property(contexts, ({ ids, seen, kept }) => {
      const got = apply(piece, {
        tokens: text(ids),
        positions: { data: Uint32Array.from(kept), shape: [1, kept.length] },
        at: { length: seen },
      }).scores!.data;
      const want = oracle(ids.slice(0, seen));
      kept.forEach((p, i) => expect(Math.abs(got[i] - want.get(p))).toBeLessThanOrEqual(TOLERANCE));
    }),
  );
}

test('rarity agrees with its oracle: evicted tokens count, tokens not yet seen do not', () =>
  agrees(rarity(), rarityOracle));
test('so do the two forms that the paper never ran', () => {
  agrees(rarity({ form: 'inverse' }), (ids) => {
    const c = occurrences(ids);
    return { get: (i) => 1 / (1 + c.get(i)) };
  });
  agrees(rarity({ form: 'exponential' }), (ids) => {
    const c = occurrences(ids);
    return { get: (i) => Math.E ** -c.get(i) };
  });
});
test('frequency agrees with its oracle', () =>
  agrees(frequency(), (ids) => {
    const c = occurrences(ids);
    return { get: (i) => c.get(i) / ids.length };
  }));

test.each([
  [1, 0.5906],
  [10, 0.2943],
  [100, 0.1781],
])('U(%d) = %d', (count, u) => {
  const { data } = apply(rarity(), { tokens: text(new Array<number>(count).fill(3)) }).scores!;
  expect(data[0]).toBeCloseTo(u, 4);
});
