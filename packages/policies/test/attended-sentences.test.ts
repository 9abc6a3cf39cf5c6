import fc from 'fast-check';
import { expect, test } from 'vitest';
import { apply } from '@kv/cpu';
import type { Policy, Tokens } from '@kv/core';
import { attendedSentences, policy } from '../src/index.ts';

const SINKS = 4,
  QUESTION = ['\n', 'What', ' is', ' it', '?', ' It', ' is', ':'];
/**
 * Sentences of 6 to 12 tokens, one of which ends in a number of seven; a question at the end that looks at the first
 * digit alone, and, less, anywhere else.
 */
const texts = fc.record({
  sizes: fc.array(fc.integer({ min: 6, max: 12 }), { minLength: 6, maxLength: 12 }),
  at: fc.nat(),
  noise: fc.array(fc.double({ min: 0, max: 0.2, noNaN: true }), { minLength: 24, maxLength: 24 }),
});
function scene({
  sizes,
  at,
  noise,
}: {
  readonly sizes: readonly number[];
  readonly at: number;
  readonly noise: readonly number[];
}): { readonly tokens: Tokens; readonly attention: number[][]; readonly value: number[] } {
  const told = 1 + (at % (sizes.length - 1)),
    from = sizes.slice(0, told).reduce((a, b) => a + b, 0) + 3;
  const words = [
    ...sizes.flatMap((size, s) => [
      ...Array.from({ length: (s === told ? 11 : size) - 1 }, (_, i) =>
        s === told && i >= 3 ? String(i % 10) : ' word',
      ),
      '.',
    ]),
    ...QUESTION,
  ];
  let end = 0;
  return {
    tokens: { ids: words.map((_, i) => i), text: words.join(''), offsets: words.map((w) => [end, (end += w.length)]) },
    attention: [words.map((_, i) => (i === from ? 1 : noise[i % noise.length]))],
    value: Array.from({ length: 7 }, (_, i) => from + i),
  };
}
/** Returns the kept slots of the value with a budget for the sinks, the question and two sentences. */
const staying = (policy: Policy, { tokens, attention, value }: ReturnType<typeof scene>): number => {
  const { kept } = apply(policy, { tokens, attention, budget: SINKS + QUESTION.length + 24 });
  return value.filter((slot) => kept![0].includes(slot)).length;
};

test('of a number whose first digit the question looks at, all digits stay', () => {
  fc.assert(
    fc.property(texts, (given) => {
      expect(staying(attendedSentences(), scene(given))).toBe(7);
    }),
  );
});
test('single slots do not do that', () => {
  expect(
    fc.check(fc.property(texts, (given) => staying(policy('snapkv', { window: 8, kernel: 1 }), scene(given)) === 7))
      .failed,
  ).toBe(true);
});
