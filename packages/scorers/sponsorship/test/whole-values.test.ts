import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { apply } from '@kv/cpu';
import { compile } from '@kv/core/engine';
import { each, scorerLaws } from '@kv/laws';
import { detector, details, learnRank, ranker, regex, sponsorship, valueAfter } from '../src/index.ts';
import { tokenise } from './tokenise.ts';
import { wholeOracle } from './whole-values.oracle.ts';

const fifths = ranker(
  'fifths',
  {},
  () =>
    ({ ids }) =>
      ids.map((id) => (id % 5) / 5),
);
describe.each(
  [
    sponsorship({ reach: 'value', anchors: details() }),
    sponsorship({ reach: 'value', most: 2, decay: 0.5 }),
    learnRank({ reach: 'value', rank: fifths() }),
  ].map((piece) => [piece.label, piece] as const),
)('%s', (_, piece) => {
  each(scorerLaws(piece, { runs: 40 }), test);
});

/** A text of marks and letters, cut into tokens of one to four characters, with values and titles anywhere. */
const scenes = fc.array(fc.integer({ min: 1, max: 4 }), { minLength: 2, maxLength: 30 }).chain((sizes) => {
  let end = 0;
  const offsets = sizes.map((n) => [end, (end += n)] as const);
  return fc.record({
    offsets: fc.constant(offsets),
    text: fc.string({ unit: fc.constantFrom(...'xxxxxxx  ,;.:="\n'), minLength: end, maxLength: end }),
    most: fc.integer({ min: 1, max: 12 }),
    lead: fc.integer({ min: 0, max: 8 }),
    values: fc.array(
      fc.record({
        position: fc.integer({ min: -1, max: sizes.length - 2 }),
        skip: fc.nat(2),
        length: fc.integer({ min: 1, max: 20 }),
        title: fc.option(
          fc.nat(end - 1).map((from) => [from, Math.min(end, from + 3)] as const),
          { nil: undefined },
        ),
        worth: fc.constantFrom(0.25, 0.5, 1),
      }),
      { maxLength: 4 },
    ),
  });
});
test('every token of a value and of its name is vouched for alike, as the oracle says, wherever tokens are cut', () => {
  fc.assert(
    fc.property(scenes, ({ offsets, text, most, lead, values }) => {
      const length = offsets.at(-1)![1],
        given = values.flatMap(({ position, skip, length: n, title, worth }) => {
          // an anchor ends within its token, and its value begins there or a few characters later
          const from = position < 0 ? 0 : offsets[position][0] + 1,
            start = Math.min(from + skip, length - 1),
            end = Math.min(start + n, length);
          return offsets[Math.max(0, position)][1] + 2 >= start
            ? [{ position, value: [start, end] as const, ...(title && { title }), worth }]
            : [];
        }),
        tokens = { text, ids: offsets.map((_, i) => i), offsets },
        piece = sponsorship({ reach: 'value', most, lead, anchors: detector('given', {}, () => () => given)() });
      const got = Array.from(apply(piece, { tokens }).scores!.data);
      expect(got).toEqual(wholeOracle(tokens, given, { most, lead }, 15));
    }),
    { numRuns: 300 },
  );
});
test.each([
  ['{"bank": "North", "session_key": "aX9qq177zz"}', '"session_key": "aX9qq177zz"'],
  [
    'Hello. My ticket number for the broken gate is: 48213976. Bye',
    'My ticket number for the broken gate is: 48213976.',
  ],
  ['see https://x.y/?a=1&token=Zk39sl30XXpq2 now', 'token=Zk39sl30XXpq2'],
  ['| order | name |\n|---|---|\n| 48213976 | Ann |\n', 'order| 48213976 '],
])('a value stays with what names it: %s', (text, kept) => {
  const { scores } = apply(sponsorship({ reach: 'value', lead: 64, anchors: details() }), {
    tokens: tokenise(text, 1),
  });
  const found = Array.from(text, (c, i) => ((scores!.data[i] ?? 0) > 0 ? c : '')).join('');
  expect(found).toContain(kept);
});

test.each([
  ['password: hunter2, he said', 'password:', 'hunter2'],
  ['password is hunter2.', 'is', 'hunter2'],
  ['{"key": "a b, c", "x": 1}', '"key":', 'a b, c'],
  ['{\\"key\\": \\"a b\\", \\"x\\": 1}', 'key\\":', 'a b'],
  ['{"key": "a \\" b"}', '"key":', 'a \\" b'],
  ['Authorization: Bearer abc.def==\nnext', 'Authorization:', 'abc.def=='],
  ['f(key=abc(1), 2)', 'key=', 'abc(1)'],
  ['(pin: 4711)', 'pin:', '4711'],
  ['card: 4000 1234 5678 9010 please', 'card:', '4000 1234 5678 9010'],
  ['pin: 4711 2 times', 'pin:', '4711'],
  ['The code: **X4-99**', 'code:', 'X4-99**'],
  ['key: “two words” x', 'key:', 'two words'],
  ['key: "open', 'key:', 'open'],
  ['key:\nnext', 'key:', ''],
  ['key:', 'key:', ''],
])('the value in %s', (text, key, value) => {
  expect(text.slice(...valueAfter(text, text.indexOf(key) + key.length))).toBe(value);
});
test('a value follows its key, on its line, within the text', () => {
  fc.assert(
    fc.property(
      fc.string({ unit: fc.constantFrom(...'ab1 "\'\\\n.,(){}[]<>`:='), maxLength: 60 }),
      fc.nat(60),
      (text, at) => {
        const from = Math.min(at, text.length),
          [start, end] = valueAfter(text, from);
        expect(from <= start && start <= end && end <= text.length).toBe(true);
        expect(text.slice(from, end)).not.toContain('\n');
      },
    ),
    { numRuns: 500 },
  );
});

test('values that do not decay need no state, so nothing of them has to be saved; others share theirs', () => {
  expect(compile(sponsorship({ reach: 'value' })).hooks('step')).toHaveLength(0);
  expect(compile(sponsorship({ reach: 'value', decay: 0.5 })).hooks('step')).toHaveLength(1);
  const fresh = { data: Float32Array.of(1, 1, 0.5, 0.5), shape: [1, 4] },
    piece = sponsorship({ reach: 'value', decay: 0.5, lead: 0, anchors: regex() });
  expect(
    Array.from(
      apply(piece, { tokens: tokenise('pin:47'.padEnd(4), 2), fresh: { data: fresh.data.slice(0, 3), shape: [1, 3] } })
        .scores!.data,
    ),
  ).toEqual([0, 0, 7.5]);
});
test('a value of more than `most` tokens is cut, and a note says so', () => {
  const tokens = tokenise(`key: ${'x9'.repeat(20)} and so on`, 1),
    run = (most: number) => apply(sponsorship({ reach: 'value', most, lead: 0 }), { tokens });
  expect(run(64).notes).toEqual([]);
  expect(Array.from(run(64).scores!.data).filter((v) => v > 0)).toHaveLength(42); // a space, 40 characters, a space
  expect(run(9).notes).toEqual([expect.stringContaining('longer than `most` tokens')]);
  expect(Array.from(run(9).scores!.data).filter((v) => v > 0)).toHaveLength(9);
});
