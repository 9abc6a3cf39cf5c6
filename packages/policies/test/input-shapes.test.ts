import { entries, KvError } from '@kv/core';
import { apply } from '@kv/cpu';
import type { Piece } from '@kv/core';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { catalogue } from '../src/index.ts';
import { madeBy } from './inside.ts';

/** Pieces of every kind, and the methods. */
const pieces = entries(catalogue)
  .map(({ factory }) => madeBy(factory) as Piece)
  .filter((made) => 'atoms' in made);

const size = fc.integer({ min: 1, max: 4 }),
  array = (rank: number): fc.Arbitrary<{ readonly data: number[]; readonly shape: number[] }> =>
    fc.array(size, { minLength: rank, maxLength: rank }).map((shape) => ({
      shape,
      data: Array.from({ length: shape.reduce((a, b) => a * b, 1) }, (_, i) => 1 + (i % 5)),
    })),
  some = fc.oneof({ weight: 4, arbitrary: fc.constant(3) }, { weight: 1, arbitrary: fc.constantFrom(1, 2, 4) });
const inputs = fc.record(
  {
    scores: array(2),
    attention: array(2),
    positions: array(2),
    keys: some.chain(array),
    values: some.chain(array),
    queries: some.chain(array),
    outputNorms: array(2),
    budget: size,
  },
  { requiredKeys: [] },
);
test('inputs of any shapes give numbers, or a sentence that names an input and no operation', () => {
  const kinds = new Set<string>();
  fc.assert(
    fc.property(fc.constantFrom(...pieces), inputs, (piece, given) => {
      try {
        apply(piece, given);
        for (const { at } of piece.atoms) kinds.add(at);
      } catch (error) {
        if (!KvError.is(error)) throw error;
        expect(error.message, piece.label).not.toMatch(/\bops\.|undefined|NaN/);
        const slots = new Set(
          ['scores', 'attention', 'keys', 'values'].flatMap((name) => {
            const x = given[name as 'scores'];
            return x && x.shape.length === (name === 'keys' || name === 'values' ? 3 : 2) ? [x.shape[1]] : [];
          }),
        );
        if (slots.size > 1)
          expect(error.message).toMatch(
            /'(?:scores|attention|keys|values|positions|queries|outputNorms)'|\{ scores \}|pass it as/,
          );
      }
    }),
    { numRuns: 5000 },
  );
  expect(kinds.size).toBeGreaterThan(2);
});
