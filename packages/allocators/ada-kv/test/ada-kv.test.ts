import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { apply, compose, shaper } from '@kv/core';
import { each, scoreAllocatorLaws } from '@kv/laws';
import { adaKV } from '../src/index.ts';
import { adaKvOracle } from './ada-kv.oracle.ts';

describe.each([adaKV(), adaKV({ safeguard: 1 }), adaKV({ safeguard: 0 })].map((piece) => [piece.label, piece] as const))('%s', (_, piece) => { each(scoreAllocatorLaws(piece, { runs: 60 }), test); });

const cases = fc.record({ heads: fc.integer({ min: 1, max: 3 }), n: fc.integer({ min: 1, max: 8 }), safeguard: fc.constantFrom(0, 0.2, 0.5, 1), budget: fc.nat(8), forced: fc.nat(2) })
  .chain((c) => fc.record({ c: fc.constant(c), scores: fc.array(fc.array(fc.integer({ min: -3, max: 3 }), { minLength: c.n, maxLength: c.n }), { minLength: c.heads, maxLength: c.heads }) }));
test('agrees with the oracle, forced slots counted', () => {
  fc.assert(fc.property(cases, ({ c: { heads, n, safeguard, forced, ...c }, scores }) => {
    const budget = Math.min(n, c.budget), must = Math.min(forced, budget), mask = scores.flatMap((row) => row.map((_, i) => Number(i < must)));
    const force = shaper('force', [], ({ ops, scores: s }) => ({ scores: s, forced: ops.from({ data: Float32Array.from(mask), shape: [heads, n] }) }));
    expect(apply(compose(force, adaKV({ safeguard })), { scores, budget, at: { kvHeads: heads } }).budgets).toEqual(adaKvOracle(scores, scores.map(() => budget), safeguard, scores.map(() => Array.from({ length: must }, (_, i) => i))));
  }));
});

test('a safeguard of 1 is uniform, of 0 one top-k over the layer', () => {
  const scores = [[9, 8, 7, 6], [1, 2, 3, 4]];
  expect(apply(adaKV({ safeguard: 1 }), { scores, budget: 2 }).budgets).toEqual([2, 2]);
  expect(apply(adaKV({ safeguard: 0 }), { scores, budget: 2 }).budgets).toEqual([4, 0]);
});
test('a safeguard that is no share is an error', () => { expect(() => adaKV({ safeguard: 2 })).toThrow('adaKV: safeguard must be a share from 0 to 1, got 2'); });
