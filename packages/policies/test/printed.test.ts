import { inspect } from 'node:util';
import { compose, entries, id, lookUp } from '@kv/core';
import type { AnyFactory, Piece } from '@kv/core';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { catalogue, parsePolicy, policyNames } from '../src/index.ts';

const scorer = lookUp(catalogue, 'knorm')() as Piece;
const INSIDE: Readonly<Record<AnyFactory['description']['takes'], readonly unknown[]>> = {
  nothing: [],
  scorer: [scorer],
  scorers: [scorer, scorer],
  terms: [[0.5, scorer]],
  policy: [parsePolicy('knorm | topK')],
};
/** One result of every factory in the catalogue: pieces, methods, detectors, rankers. */
const made = entries(catalogue).map(
  ({ factory }) => factory(...INSIDE[factory.description.takes]) as { readonly label: string },
);

test('everything that is made prints as its label, in text and in the console', () => {
  expect(made.length).toBeGreaterThan(100);
  for (const thing of made) {
    const printed = thing.label || 'full';
    expect([String(thing), `${thing}`, inspect(thing), inspect([thing], { breakLength: Infinity })]).toEqual([
      printed,
      printed,
      printed,
      `[ ${printed} ]`,
    ]);
  }
});
test('so do compositions of any length, and what they print reads back', () =>
  fc.assert(
    fc.property(
      fc.oneof(
        fc.constantFrom(...policyNames),
        fc
          .array(fc.constantFrom('zScore', 'minMax', 'softmax', 'pool(kernel=3)', 'mandatory'), { maxLength: 4 })
          .map((steps) => ['knorm', ...steps, 'topK'].join(' | ')),
      ),
      (text) => {
        const whole = parsePolicy(text);
        expect([String(whole), inspect(whole)]).toEqual([whole.label || 'full', whole.label || 'full']);
        expect(parsePolicy(String(whole)).label).toBe(whole.label);
      },
    ),
  ));
test('the unit prints as the method that evicts nothing', () => {
  expect(String(id)).toBe('full');
  expect(String(compose())).toBe('full');
});
