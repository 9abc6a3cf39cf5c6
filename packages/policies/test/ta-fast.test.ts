import { readFileSync } from 'node:fs';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { apply } from '@kv/cpu';
import { compile } from '@kv/core/engine';
import type { Policy, Tokens } from '@kv/core';
import { topK } from '@kv/selectors-top-k';
import { taFast } from '../src/index.ts';

const WORDS = ['water', 'the', 'of', 'stone', 'and', 'river', 'a', 'still', 'under', 'was'];
/** Filler of random words with a needle somewhere: one token a word, sign or character of the value. */
const texts = fc.record({
  before: fc.array(fc.constantFrom(...WORDS), { minLength: 1, maxLength: 60 }),
  after: fc.array(fc.constantFrom(...WORDS), { minLength: 1, maxLength: 60 }),
  value: fc.string({ minLength: 1, maxLength: 8, unit: fc.constantFrom(...'XK7M9P2Q') }),
});
function tokenise({
  before,
  after,
  value,
}: {
  readonly before: readonly string[];
  readonly after: readonly string[];
  readonly value: string;
}): { readonly tokens: Tokens; readonly span: number[] } {
  const pieces = [
    ...before.map((w) => `${w} `),
    'The ',
    'secret ',
    'code ',
    'is',
    ':',
    ...value,
    ...after.map((w) => ` ${w}`),
  ];
  const from = before.length + 5,
    ids = pieces.map((p) => [...new Set(pieces)].indexOf(p));
  let end = 0;
  return {
    tokens: { ids, text: pieces.join(''), offsets: pieces.map((p) => [end, (end += p.length)]) },
    span: Array.from({ length: value.length }, (_, i) => from + i),
  };
}
/** Whether every token of the value is kept at K = 16. */
const survives = (policy: (length: number) => Policy) =>
  fc.property(texts, (given) => {
    const { tokens, span } = tokenise(given),
      { kept } = apply(policy(span.length), { tokens, budget: 16 });
    return span.every((slot) => kept![0].includes(slot));
  });

test('a sponsored value of at most L = K_p tokens survives in any filler, at a budget of 16', () => {
  fc.assert(survives((length) => taFast({ reach: length, slots: length })));
});
test('without a budget to sponsor with it does not, and a reach shorter than the value covers a part', () => {
  expect(fc.check(survives((length) => taFast({ reach: length, slots: length, strength: 0 }))).failed).toBe(true);
  expect(fc.check(survives(() => taFast({ reach: 1, slots: 1 }))).failed).toBe(true);
});
test('a strict main pool (16 + 0) keeps a short value too: vouchers outweigh all else', () => {
  fc.assert(survives((length) => taFast({ reach: length, slots: 0 })));
});

test('Theorem 1: a token below the K-th score is dropped', () => {
  fc.assert(
    fc.property(
      fc.uniqueArray(fc.integer({ min: 1, max: 999 }), { minLength: 2, maxLength: 30 }),
      fc.nat(28),
      (row, k) => {
        const budget = k % row.length,
          { kept } = apply(topK(), { scores: [row], budget }),
          border = [...row].sort((a, b) => b - a)[budget - 1] ?? Infinity;
        row.forEach((s, i) => {
          if (s < border) expect(kept![0]).not.toContain(i);
        });
      },
    ),
  );
});
test('Theorem 4: with room for one value and m decoys as strong, the real one survives in one of the m + 1 orders', () => {
  for (const m of [0, 1, 2, 4]) {
    const survives = Array.from({ length: m + 1 }, (_, real) => {
      const pieces = [
        ...Array.from({ length: m + 1 }, (_s, i) => [
          'key',
          ':',
          i === real ? 'REAL' : 'fake',
          ' ',
          'well ',
          'and ',
          'good ',
        ]).flat(),
        'end',
        ' of',
        ' it',
      ];
      let end = 0;
      const tokens: Tokens = {
        ids: pieces.map((_p, i) => i),
        text: pieces.join(''),
        offsets: pieces.map((p) => [end, (end += p.length)]),
      };
      return apply(taFast({ reach: 1, slots: 1 }), { tokens, budget: 4 }).kept![0].includes(pieces.indexOf('REAL'));
    });
    expect(survives.filter(Boolean)).toHaveLength(1);
  }
});

test('the sponsorship in its utility and the one in its partition are one: budgets decay once a token', () => {
  expect(compile(taFast()).hooks('step')).toHaveLength(1);
  expect(compile(taFast()).minSlots(100, 16)).toBe(7);
});

test('the README example', () => {
  const code = /```ts\n([^]*?)```/.exec(readFileSync(new URL('../README.md', import.meta.url), 'utf8'))![1];
  const text = /text = '(.*)'/.exec(code)![1],
    said = /\/\/ => (.*)/.exec(code)![1];
  const { kept } = apply(taFast({ reach: 4 }), {
    tokens: {
      text,
      ids: Array.from(text, (c) => c.codePointAt(0) ?? 0),
      offsets: Array.from(text, (_, i) => [i, i + 1]),
    },
    budget: 12,
  });
  expect(kept![0].map((i) => text[i]).join('')).toBe(said);
});
