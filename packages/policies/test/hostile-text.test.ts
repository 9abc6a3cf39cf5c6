import { KvError } from '@kv/core';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { parsePolicy } from '../src/index.ts';

const refused = (run: () => unknown): string => {
  try {
    run();
  } catch (error) {
    if (KvError.is(error)) return error.message;
    throw error;
  }
  throw new Error('expected a refusal');
};

describe('hostile texts give a sentence, at once', () => {
  const deep = (n: number): string => `${'sum('.repeat(n)}knorm${')'.repeat(n)} ∘ topK`;
  test.each([
    ['deep nesting', deep(1000)],
    ['deeper nesting', deep(250_000)],
    ['brackets that only open', '('.repeat(1e6)],
    ['names that only open', 'a('.repeat(8000)],
    ['a quote never closed', `snapkv(pooling="${'x'.repeat(1e6)}`],
    ['a short quote never closed', `snapkv(pooling="${'\\"'.repeat(8000)}`],
    ['many pieces', Array.from({ length: 3000 }, () => 'knorm').join('∘')],
    ['many scorers', `sum(${'tova,'.repeat(3000)}tova)∘topK`],
    ['many options', `snapkv(${Array.from({ length: 1500 }, (_, i) => `o${i}=1`).join(',')})`],
    ['a megabyte of spaces', `snapkv(window=8${' '.repeat(1e6)})`],
    ['only ∘', '∘'.repeat(16_000)],
  ])('%s', (_, text) => {
    expect(refused(() => parsePolicy(text)).length).toBeLessThan(1000);
  });
  test.each([
    `knorm${' ∘ minMax'.repeat(63)} ∘ topK`,
    `sum(${'h2o,'.repeat(62)}h2o) ∘ topK`,
    `tova${' ∘ pool(kernel=4095)'.repeat(200)} ∘ topK`,
  ])('more pieces than an event should run: %.30s…', (text) => {
    expect(refused(() => parsePolicy(text))).toBe('policy: expected at most 64 pieces, got more: leave some out');
  });
  test('options by names that objects have are options that no piece has', () => {
    for (const name of ['__proto__', 'constructor', 'toString', 'hasOwnProperty'])
      for (const value of ['1', '4,window=4', 'topK'])
        expect(refused(() => parsePolicy(`snapkv(${name}=${value})`))).toMatch(/^snapkv: has no option /);
  });
  test.each(['4294967296', '9007199254740993', '1e308'])('a count of %s, which no device counts to', (n) => {
    for (const call of [`snapkv(window=${n})`, `streaming(sinks=${n})`])
      expect(refused(() => parsePolicy(call))).toMatch(/ whole number.* below 2\^32, got \d/);
  });
  test('the deepest and the longest that are read are made, too', () => {
    expect(parsePolicy(deep(32)).to).toBe('kept');
    expect(parsePolicy(`knorm${' ∘ minMax'.repeat(62)} ∘ topK`).to).toBe('kept');
    expect(parsePolicy(`sum(${'h2o,'.repeat(61)}h2o) ∘ topK`).to).toBe('kept');
  });
});

describe('a text of which something is left out', () => {
  const texts = [
    'snapkv(window=16,kernel=5,pooling=max) | caote | topK',
    'weighted(0.5*recency,1*snapkv(window=32)) ∘ linearBudgets ∘ topK',
    'sum(knorm | softmax,snapkv) | mandatory(sinks=4,recent=8) | topK',
    'view(knorm | topK,budget=128,rows=kv)',
    'weighted(1*sponsorship(anchors=regex)) | sentences | wholeUnits(last=fill)',
  ];
  const tokensOf = (text: string): string[] => text.replaceAll(' ', '').match(/[|∘(),=]|[^|∘(),=]+/g) ?? [];
  /** Expected error for a text that lacks one token of a kind. */
  const SAYS: readonly (readonly [token: RegExp, sentence: RegExp])[] = [
    [/^[()]$/, /expected as many '\(' as '\)'/],
    [/^[|∘]$/, /expected (?:',' or )?'\|' between '/],
    [/^,$/, /expected ',' or '[)|]' between '|expected the name of a method or piece/],
    [/^=$/, /expected options .* as option=value|expected the name of a method or piece/],
    [/./, /expected (?:a piece|a value|a name or value|the name of an option) (?:before|after|between) '/],
  ];
  test('is refused by a sentence that says what is missing, and where', () =>
    fc.assert(
      fc.property(fc.constantFrom(...texts), fc.nat(), (text, place) => {
        const tokens = tokensOf(text),
          [token] = tokens.splice(place % tokens.length, 1);
        const [, sentence] = SAYS.find(([kind]) => kind.test(token))!;
        expect(
          refused(() => parsePolicy(tokens.join(' '))),
          tokens.join(' '),
        ).toMatch(sentence);
      }),
      { numRuns: 300 },
    ));
  test.each([
    ['snapkv caote | topK', "expected '|' between 'snapkv' and 'caote'"],
    ['sum(knorm snapkv) | topK', "expected ',' or '|' between 'knorm' and 'snapkv'"],
    ['snapkv | | topK', "expected a piece between 'snapkv |' and '| topK'"],
  ])('%s', (text, sentence) => {
    expect(refused(() => parsePolicy(text))).toContain(sentence);
  });
});
