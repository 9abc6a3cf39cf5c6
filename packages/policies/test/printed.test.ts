import { inspect } from 'node:util';
import { compose, entries, id } from '@kv/core';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { catalogue, parsePolicy, policyNames } from '../src/index.ts';
import { madeBy } from './inside.ts';

/** One result of every factory in the catalogue: pieces, methods, detectors, rankers. */
const made = entries(catalogue).map(({ factory }) => madeBy(factory) as { readonly label: string });

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
