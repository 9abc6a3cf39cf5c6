import fc from 'fast-check';
import { expect, test } from 'vitest';
import { readAddress, readBudget, writeAddress } from '../src/address.ts';
import { CACHES, DEFAULT, DEVICES, FORMS, LENGTHS, LIMITS, type RunChoice } from '../src/choice.ts';

/** Any text that an address can carry: half a surrogate pair has no UTF-8. */
const text = (maxLength: number): fc.Arbitrary<string> =>
  fc.string({ unit: 'binary', maxLength }).filter((said) => said.length <= maxLength);
const budget: fc.Arbitrary<RunChoice['budget']> = fc.oneof(
  fc.integer({ min: 1, max: LIMITS.slots }),
  fc.integer({ min: 1, max: 100_000 }).map((thousandths) => `${thousandths / 1000}%` as const),
);
const choice: fc.Arbitrary<RunChoice> = fc.record({
  model: fc.oneof(
    fc.constant(DEFAULT.model),
    fc.record({
      kind: fc.constantFrom('file' as const, 'hub' as const),
      name: text(40).filter((name) => name !== ''),
    }),
  ),
  source: fc.oneof(
    fc.record({ kind: fc.constant('text' as const), text: text(300) }),
    fc.record({
      kind: fc.constant('needle' as const),
      form: fc.constantFrom(...FORMS),
      tokens: fc.constantFrom(...LENGTHS),
      depth: fc.integer({ min: 0, max: 100 }),
      seed: fc.integer({ min: 0, max: LIMITS.seed }),
    }),
  ),
  late: fc.boolean(),
  policies: fc.array(text(60), { minLength: 2, maxLength: LIMITS.policies }),
  budget,
  maxNewTokens: fc.integer({ min: 1, max: LIMITS.maxNewTokens }),
  device: fc.constantFrom(...DEVICES),
  cache: fc.constantFrom(...CACHES),
});

test('an address gives back the choice that it was written from', () => {
  fc.assert(
    fc.property(choice, (chosen) => {
      expect(readAddress(`#${writeAddress(chosen)}`)).toEqual(chosen);
    }),
  );
});

test('it stays the same within a URL', () => {
  fc.assert(
    fc.property(choice, (chosen) => {
      const url = new URL('https://example.org/page/');
      url.hash = writeAddress(chosen);
      expect(readAddress(new URL(url.href).hash)).toEqual(chosen);
    }),
  );
});

test('any text is read as some choice, which is read as itself from then on', () => {
  const key = fc.constantFrom(
    'text',
    'form',
    'tokens',
    'depth',
    'seed',
    'ask',
    'a',
    'b',
    'c',
    'f',
    'file',
    'hub',
    'budget',
    'new',
    'device',
    'cache',
  );
  const value = fc.oneof(
    fc.string(),
    fc.double().map(String),
    fc.integer().map(String),
    fc.integer().map((n) => `${n}%`),
  );
  const hostile = fc.oneof(
    fc.string(),
    fc.array(fc.tuple(key, value)).map((pairs) => String(new URLSearchParams(pairs))),
  );
  fc.assert(
    fc.property(hostile, (hash) => {
      const read = readAddress(hash);
      expect(readAddress(writeAddress(read))).toEqual(read);
    }),
  );
});

test('what is missing or out of bounds is the default', () => {
  expect(readAddress('')).toEqual(DEFAULT);
  expect(
    readAddress('#tokens=100000000&depth=101&seed=1e5&new=0&budget=0%25&device=quantum&form=poem&cache=q3'),
  ).toEqual(DEFAULT);
  expect(readAddress(`#text=${'x'.repeat(LIMITS.text + 1)}&a=${'x'.repeat(LIMITS.policy + 1)}`)).toEqual(DEFAULT);
});

test.each([
  ['25%', '25%'],
  [' 12.50 % ', '12.5%'],
  ['100%', '100%'],
  ['64', 64],
  ['100.1%', undefined],
  ['0', undefined],
  ['0.0%', undefined],
  ['-3', undefined],
  ['many', undefined],
  ['', undefined],
])('the budget %j is %j', (said, read) => {
  expect(readBudget(said)).toBe(read);
});
