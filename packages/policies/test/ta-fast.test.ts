import { readFileSync } from 'node:fs';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { apply } from '@kv/cpu';
import { compile } from '@kv/core/engine';
import type { Policy, Tokens } from '@kv/core';
import { regex } from '@kv/scorers-sponsorship';
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
  expect(compile(taFast({ reach: 6, slots: 4 })).hooks('step')).toHaveLength(1);
  expect(compile(taFast({ reach: 6, slots: 4 })).minSlots(100, 16)).toBe(7);
});

/** Filler with two values of any length, told in two ways: one token a word, sign or character of a value. */
const lives = fc.record({
  filler: fc.array(fc.array(fc.constantFrom(...WORDS), { minLength: 1, maxLength: 40 }), {
    minLength: 3,
    maxLength: 3,
  }),
  secret: fc.string({ minLength: 7, maxLength: 24, unit: fc.constantFrom(...'XK7M9P2Q') }).map((text) => `X7${text}`),
  order: fc.string({ minLength: 6, maxLength: 12, unit: fc.constantFrom(...'0123456789') }).map((text) => `48${text}`),
  spare: fc.nat(40),
});
type Life = typeof lives extends fc.Arbitrary<infer T> ? T : never;
/** Returns a text's tokens, and the slots of its two values with the space that ends each. */
function toldIn({ filler, secret, order }: Life): { readonly tokens: Tokens; readonly spans: readonly number[][] } {
  const pieces: string[] = [],
    spans: number[][] = [],
    words = (list: readonly string[]): void => void pieces.push(...list.map((word) => `${word} `)),
    value = (text: string): void => {
      spans.push(Array.from({ length: text.length + 1 }, (_, i) => pieces.length + 1 + i));
      pieces.push(' ', ...text, ' ');
    };
  words(filler[0]!);
  pieces.push('The ', 'password', ' is', ':');
  value(secret);
  words(filler[1]!);
  pieces.push('Your ', 'order', ' number', ' is');
  value(order);
  words([...filler[2]!, 'so', 'on']);
  let end = 0;
  return {
    tokens: {
      ids: pieces.map((p) => p.length),
      text: pieces.join(''),
      offsets: pieces.map((p) => [end, (end += p.length)]),
    },
    spans,
  };
}
const wholeUnder = (policy: () => Policy) =>
  fc.property(lives, (life) => {
    const { tokens, spans } = toldIn(life),
      // three quarters of the budget hold both
      budget = Math.ceil(spans.flat().length / 0.75) + life.spare,
      { kept } = apply(policy(), { tokens, budget });
    return spans.flat().every((slot) => kept![0].includes(slot));
  });
test('by default values of any length survive whole where the budget can hold them', () => {
  fc.assert(wholeUnder(() => taFast()));
});
test('and with them what names them, without a note, where the budget can hold that too', () => {
  fc.assert(
    fc.property(lives, (life) => {
      const { tokens, spans } = toldIn(life),
        named = spans.flatMap(([first = 0]) => Array.from({ length: 5 }, (_, i) => first - 5 + i)),
        all = [...named, ...spans.flat()],
        leads = 3 * 12, // of both, and of the word that the text ends in
        { kept, notes } = apply(taFast(), { tokens, budget: Math.ceil((all.length + leads) / 0.75) + life.spare });
      expect(all.every((slot) => kept![0].includes(slot))).toBe(true);
      expect(notes).toEqual([]);
    }),
  );
});
test('the first six tokens, a voucher that falls off, and the keys of the paper do not keep them', () => {
  expect(fc.check(wholeUnder(() => taFast({ reach: 6 }))).failed).toBe(true);
  expect(fc.check(wholeUnder(() => taFast({ reach: 40, slots: 0.5 }))).failed).toBe(true);
  expect(fc.check(wholeUnder(() => taFast({ anchors: regex() }))).failed).toBe(true);
});
test('what the budget cannot hold is noted: the secret stays whole before the order number', () => {
  fc.assert(
    fc.property(lives, (life) => {
      const { tokens, spans } = toldIn(life),
        budget = Math.ceil(spans[0].length / 0.75),
        { kept, notes } = apply(taFast(), { tokens, budget });
      expect(spans[0].every((slot) => kept![0].includes(slot))).toBe(true);
      expect(notes).toEqual([expect.stringContaining('do not hold all')]);
    }),
  );
});
test('no more than its share of the budget goes to values, so that what is recent stays', () => {
  const text = Array.from({ length: 200 }, (_, i) => `order ${480000 + i}, `).join(''),
    offsets = [...text.matchAll(/\d{6}|[a-z]+|[^]/g)].map((m) => [m.index, m.index + m[0].length] as const),
    tokens = { text, ids: offsets.map((_, i) => i), offsets },
    { kept, notes } = apply(taFast({ slots: 0.5 }), { tokens, budget: 100 }),
    last = offsets.length - 40;
  expect(kept![0].filter((slot) => slot >= last)).toHaveLength(40);
  expect(notes).toHaveLength(1);
});

test('the README example', () => {
  const code = /```ts\n([^]*?)```/.exec(readFileSync(new URL('../README.md', import.meta.url), 'utf8'))![1];
  const text = /text = '(.*)'/.exec(code)![1],
    said = /\/\/ => (.*)/.exec(code)![1];
  const { kept } = apply(taFast(), {
    tokens: {
      text,
      ids: Array.from(text, (c) => c.codePointAt(0) ?? 0),
      offsets: Array.from(text, (_, i) => [i, i + 1]),
    },
    budget: 14,
  });
  expect(kept![0].map((i) => text[i]).join('')).toBe(said);
});
