import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { Tokens } from '@kv/core';
import { apply } from '@kv/cpu';
import { parsePolicy } from '../src/index.ts';

/** A conversation of turns with these many words each, and the turn of every token. */
function talk(turns: readonly number[]): { readonly tokens: Tokens; readonly turns: readonly number[] } {
  const words = turns.flatMap((count, t) => [
      ['', t],
      [t % 2 === 0 ? 'user' : 'assistant', t],
      ['\n', t],
      ...Array.from({ length: count }, () => [' word', t]),
    ]) as [string, number][],
    offsets: [number, number][] = [];
  let text = '';
  for (const [word] of words) {
    offsets.push([text.length, text.length + word.length]);
    text += word;
  }
  return { tokens: { ids: words.map(() => 1), text, offsets }, turns: words.map(([, t]) => t) };
}
const cases = fc.record({
  turns: fc.array(fc.nat(12), { minLength: 1, maxLength: 5 }).map(talk),
  budget: fc.nat(40),
  seed: fc.nat(999),
});
const kept = (policy: string, { turns, budget, seed }: typeof cases extends fc.Arbitrary<infer T> ? T : never) => {
  const n = turns.turns.length,
    data = Float32Array.from({ length: n }, (_, i) => 1 + Math.abs(Math.sin(i * 12.9 + seed)));
  return apply(parsePolicy(policy), {
    ...{ keys: { data, shape: [1, n, 1] }, tokens: turns.tokens, budget: Math.min(n, budget) },
  }).kept![0];
};
/** Whether every turn keeps its share of the budget, rounded down. */
const fair = (policy: string): boolean => {
  let holds = true;
  fc.assert(
    fc.property(cases, (c) => {
      const { turns } = c.turns,
        stay = kept(policy, c),
        n = turns.length;
      for (const t of new Set(turns)) {
        const own = Math.floor((Math.min(n, c.budget) * turns.filter((x) => x === t).length) / n);
        if (stay.filter((i) => turns[i] === t).length < own) holds = false;
      }
    }),
    { numRuns: 100 },
  );
  return holds;
};
test('with quota over spans every turn keeps its share; without spans it need not', () => {
  expect(fair('knorm | spans | quota')).toBe(true);
  expect(fair('knorm | topK')).toBe(false);
});
test('with wholeUnits over spans at most one turn is cut', () =>
  fc.assert(
    fc.property(cases, (c) => {
      const { turns } = c.turns,
        stay = kept('knorm | spans(score=sum) | wholeUnits(last=fill)', c),
        cut = [...new Set(turns)].filter((t) => {
          const here = stay.filter((i) => turns[i] === t).length;
          return here > 0 && here < turns.filter((x) => x === t).length;
        });
      expect(cut.length).toBeLessThanOrEqual(1);
      expect(stay).toHaveLength(Math.min(turns.length, c.budget));
    }),
    { numRuns: 100 },
  ));
