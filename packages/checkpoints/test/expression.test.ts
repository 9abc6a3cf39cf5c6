import { KvError } from '@kv/core';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { matches } from '../src/tokenizer/expression/matcher.ts';
import { compile } from '../src/tokenizer/expression/program.ts';
import { WorkLimit } from '../src/tokenizer/work-limit.ts';
import { WORDS } from '../src/tokenizer/gguf-words.ts';
import { splitter } from '../src/tokenizer/word-cutter.ts';

const found = (source: string, text: string): (readonly [number, number])[] =>
  [...matches(compile(new RegExp(source, 'gu')), text, new WorkLimit('t', text.length))].flatMap((match) =>
    match ? [match] : [],
  );

/** All expressions of one consuming element and one or two more; a loop's body consumes a character. */
const characters = ['a', 'b', '[ab]', '[^a]', '\\s', '\\S', '\\p{L}', '.', '😀', '\\n'];
const looks = ['(?!a)', '(?=b)', '(?<!a)', '(?<=b)', '(?!\\S)', '(?=a*b)', '(?!(?:ab)+)'];
const counts = ['', '', '', '?', '*', '+', '{2}', '{1,2}', '{0,2}', '{2,}', '??', '*?', '+?', '{1,3}?'];
const expression = (depth: number): fc.Arbitrary<string> => {
  const character = fc.tuple(fc.constantFrom(...characters), fc.constantFrom(...counts)).map((parts) => parts.join(''));
  const atom = fc.oneof(
    { weight: 6, arbitrary: character },
    { weight: 1, arbitrary: fc.constantFrom(...looks) },
    ...(depth === 0
      ? []
      : [
          {
            weight: 3,
            arbitrary: fc
              .tuple(expression(depth - 1), fc.constantFrom(...counts))
              .map(([inner, count]) => (count === '' ? `(?:${inner})` : `(?:[ab](?:${inner}))${count}`)),
          },
        ]),
  );
  return fc
    .array(fc.array(atom, { maxLength: 3 }), { minLength: 1, maxLength: 3 })
    .map((alternatives) => alternatives.map((parts) => parts.join('')).join('|'));
};

test('matches as JavaScript does, but at characters alone', () => {
  const units = fc.constantFrom('a', 'b', 'a', 'b', ' ', '\n', 'c', '😀');
  fc.assert(
    fc.property(expression(2), fc.array(units, { maxLength: 12 }), (source, parts) => {
      // V8 also looks ahead and back from the middle of a surrogate pair.
      const text = parts.join('').replaceAll(/\(\?[<=!]/.test(source) ? '😀' : /$^/g, 'c');
      const theirs = Array.from(text.matchAll(new RegExp(source, 'gu')), ({ 0: { length }, index }) => [
        index,
        index + length,
      ]);
      expect(found(source, text)).toEqual(theirs);
    }),
    { numRuns: 500 },
  );
});

describe('what gives nothing back', () => {
  const words = (regex: string, text: string): string[] => {
    const cut = splitter({ type: 'Split', pattern: { Regex: regex }, behavior: 'Isolated' }, 't');
    return [...cut(text, new WorkLimit('t', text.length))] as string[];
  };

  test.each<[string, string, readonly string[]]>([
    ['\\s++$|\\s*[\\r\\n]|\\s+(?!\\S)|\\s|\\S+', '  \nx', ['  \n', 'x']],
    ['\\s++$|\\s*[\\r\\n]|\\s+(?!\\S)|\\s|\\S+', 'a  \n\n b', ['a', '  \n\n', ' ', 'b']],
    ['\\s*+\\n|\\s|\\S+', '\n\n \nE', ['\n', '\n', ' ', '\n', 'E']],
    ['\\p{L}++\\p{M}|\\p{L}|[^\\p{L}]', 'abe\u0301x', ['abe\u0301', 'x']],
    ['\\p{N}{1,3}+|[^\\p{N}]+', '12345 6', ['12345', ' ', '6']],
    ['a?+a|.', 'aaab aab', ['aa', 'a', 'b', ' ', 'aa', 'b']],
    ['(?>a+)b|a|b|[^ab]+', 'aa a', ['a', 'a', ' ', 'a']],
    ['(?:\\p{L}\\p{M}*+)++|[^\\p{L}]', 'aaab aab', ['aaab', ' ', 'aab']],
    ['[]a[^b]]++a|.', 'xa]a', ['x', 'a', ']', 'a']],
  ])('%s cuts %j as Oniguruma does', (regex, text, want) => {
    expect(words(regex, text)).toEqual(want);
  });

  test('as JavaScript does with a look ahead at what was matched', () => {
    const atoms = ['a', 'b', '[ab]', '(?:ab|a)', '(?:a|ab?)', '[^a\\]]', '\\x61', '(?:a(?:b|ba))'];
    const part = fc.tuple(fc.constantFrom(...atoms), fc.constantFrom('', '', '?', '*', '+', '++', '?+', '*+', '>'));
    const branch = fc.array(part, { minLength: 1, maxLength: 4 });
    fc.assert(
      fc.property(
        fc.array(branch, { minLength: 1, maxLength: 3 }),
        fc.constantFrom('', '(?:', '(?>'),
        fc.string({ unit: fc.constantFrom('a', 'b', 'a', 'b', 'c'), maxLength: 12 }),
        (branches, around, text) => {
          let names = 0;
          const same = (inner: string): string => `(?=(?<n${names}>${inner}))\\k<n${names++}>`;
          const written = (js: boolean): string =>
            branches
              .map((parts) =>
                parts
                  .map(([atom, count]) =>
                    count === '>'
                      ? js
                        ? same(`${atom}+`)
                        : `(?>${atom}+)`
                      : count.length < 2
                        ? atom + count
                        : js
                          ? same(atom + count[0])
                          : atom + count,
                  )
                  .join(''),
              )
              .join('|');
          const body = written(true),
            js = around === '(?>' ? `${same(body)}a` : around === '' ? body : `(?:${body})a`;
          const ours = around === '' ? written(false) : `${around}${written(false)})a`;
          const theirs = Array.from(text.matchAll(new RegExp(js, 'gu')), ([match]) => match).filter(Boolean);
          const cut = splitter({ type: 'Split', pattern: { Regex: ours }, behavior: 'Removed', invert: true }, 't');
          expect([...cut(text, new WorkLimit('t', text.length))]).toEqual(theirs);
        },
      ),
      { numRuns: 1000 },
    );
  });
});

test('a loop over what may match nothing ends', () => {
  fc.assert(
    fc.property(fc.constantFrom('(?:a*)*', '(?:a*?|b)*', '(?:(?:|a)*|b)+c', '(?:a?){0,5}b'), (source) => {
      expect(found(source, 'aaab').every(([start, end]) => start <= end)).toBe(true);
    }),
  );
  expect(found('(?:a*)*b', 'aaab')).toEqual([[0, 4]]);
});

describe('work grows with the text', () => {
  /** Returns the steps per character. */
  const steps = (source: string, text: string): number => {
    let spent = 0;
    const work = { spend: (count: number) => void (spent += count), due: false } as unknown as WorkLimit;
    for (const _ of matches(compile(new RegExp(source, 'gu')), text, work));
    return spent / text.length;
  };

  test.each([
    ['nested quantifiers', '(?:a+)+!', 'a'],
    ['nested twice', '(?:(?:a+)+b?)+!', 'a'],
    ['alternatives that overlap', '(?:a|aa|a?a)*!', 'a'],
    ['runs side by side', '\\s*\\s*\\s*\\s*\\s*!', ' '],
    ['a run that is tried from everywhere', '\\s+!', ' '],
    ['counted in a loop', '(?:a{1,3}){2,}!', 'a'],
    ['lazily', '(?:a+?)+?!', 'a'],
    ['giving nothing back', '(?<atomic__0>a+)a', 'a'],
  ])('%s', (_, source, unit) => {
    expect(steps(source, unit.repeat(20_000))).toBeLessThan(200);
  });

  const regexes = [...WORDS.values()].flatMap(({ cuts }) =>
    cuts.map((cut) => (cut.pattern as { readonly Regex: string }).Regex),
  );
  test.each([...new Set(regexes)])('%s, over long runs', (regex) => {
    const cut = splitter({ type: 'Split', pattern: { Regex: regex }, behavior: 'Isolated' }, 't');
    for (const unit of [' ', '\n', 'a', 'A', '文', '1', '!', "'", '\u0301', ' a', '😀']) {
      const text = unit.repeat(20_000);
      let spent = 0;
      const work = { spend: (count: number) => void (spent += count), due: false } as unknown as WorkLimit;
      expect([...cut(text, work)].join('')).toBe(text);
      expect([unit, spent / text.length < 100]).toEqual([unit, true]);
    }
  });
});

test.each([
  ['(a)\\1', '\\1'],
  ['(?<=ab)c', '(?<=ab)'],
  ['(?<!a|b)c', '(?<!a|b)'],
  ['(?:(?:a{0,999}){0,999}){0,999}', 'instructions'],
  ['(', 'Unterminated group'],
  ['('.repeat(2000), 'Unterminated group'],
  ['a'.repeat(5000), '5000 characters'],
])('refuses %.40s', (regex, got) => {
  const part = { type: 'Split', pattern: { Regex: regex }, behavior: 'Isolated' };
  const refused = (): unknown => splitter(part, 't');
  expect(refused).toThrow(KvError);
  expect(refused).toThrow(/^t: expected a pre-tokenizer with an expression that can be matched, got [^\n]{1,400}$/);
  expect(refused).toThrow(got);
});
