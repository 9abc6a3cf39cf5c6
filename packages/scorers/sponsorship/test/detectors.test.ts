import fc from 'fast-check';
import { expect, test } from 'vitest';
import { parsePolicy, registry, selector } from '@kv/core';
import * as pieces from '../src/index.ts';
import { allowed, embedding, explicitKeys, finding, keywords, matching, regex, sponsorship } from '../src/index.ts';
import type { Detector } from '../src/index.ts';
import { positions, said, tokenise } from './tokenise.ts';

const topK = selector('topK', {}, ({ ops, scores, budgets, ...masks }) => ops.select(scores, budgets, masks));
test.each([
  ['The special magic Amsterdam number is: 7312', 'magic Amsterdam number is:'],
  ['the magic numbers for old-town are 3; magic number for old-town: 4', 'magic number for old-town:'],
  ['{\\"api_key\\": \\"sk-1\\"}', 'api_key\\":'],
  ['curl --token abc', '--token'],
  ['mysql -password x', '-password'],
  ['<api_key>abc</api_key>', '<api_key>'],
  ['export DB_PASSWORD=x', 'DB_PASSWORD='],
  ['[db]\npassword : x', 'password :'],
  ['Set-Cookie: a=b', 'Cookie:'],
  ['tool(arguments={"token": "x"})', 'token":'],
  ['https://a.b/c?token=1', 'token='],
  ['sécret key: é', 'key:'],
])('%s', (text, match) => {
  expect(said(explicitKeys, text)).toEqual([match]);
});
test.each(['--tokenize x', 'a-token b', '</api_key>', 'the magic of numbers', 'is_keyboard=1'])(
  'nothing in: %s',
  (text) => {
    expect(said(explicitKeys, text)).toEqual([]);
  },
);

test('whatever the tokens are cut into, the anchor is the one in which the match ends', () => {
  const text = 'filler — PassWord = "é", then Session-ID:42';
  for (const size of [1, 2, 3, 7]) {
    const t = tokenise(text, size);
    for (const [at, i] of positions(regex(), t).entries()) {
      const [from, to] = t.offsets[i],
        end = text.indexOf(at === 0 ? '=' : ':') + 1;
      expect(from < end && end <= to).toBe(true);
    }
    expect(regex().run(t)).toHaveLength(2);
  }
});

const PIECES = [
  'The ',
  'key',
  ':',
  ' ',
  'pass',
  'word',
  '=',
  'x9',
  '\n',
  'api',
  '_',
  'é',
  '🔑',
  'code is',
  ' filler words',
];
test('a sequence that grows in blocks is searched from where the search stopped, with the same anchors', () => {
  fc.assert(
    fc.property(
      fc.array(fc.constantFrom(...PIECES), { minLength: 1, maxLength: 300 }),
      fc.array(fc.integer({ min: 1, max: 300 }), { maxLength: 5 }),
      (pieces, cuts) => {
        let end = 0;
        const offsets = pieces.map((p) => [end, (end += p.length)] as const),
          growing = { ids: [] as number[], text: '', offsets: [] as (readonly [number, number])[] };
        const pattern = /(?:api_)?(?:key|password|code is)\s?[:=]/;
        const find = matching({ pattern });
        for (const n of [...cuts, pieces.length].sort((a, b) => a - b).map((c) => Math.min(c, pieces.length))) {
          growing.text = pieces.slice(0, n).join('');
          growing.offsets = offsets.slice(0, n);
          find.run(growing);
        }
        expect(find.run(growing)).toEqual(matching({ pattern }).run({ ids: [], text: pieces.join(''), offsets }));
      },
    ),
    { numRuns: 100 },
  );
});
test('what was searched is not searched again', () => {
  let tests = 0;
  const text = 'key: a '.repeat(400),
    growing = { ids: [] as number[], text, offsets: [...text].map((_, i) => [i, i + 1] as const) },
    pattern = /key:/;
  Object.defineProperty(pattern, 'source', {
    get: () => {
      tests++;
      return 'key:';
    },
  });
  const find = finding(pattern),
    first = find(growing);
  growing.text += 'key: b';
  growing.offsets = [...growing.text].map((_, i) => [i, i + 1] as const);
  const second = find(growing);
  expect([tests, first.length, second.length]).toEqual([1, 400, 401]);
  expect(second.slice(0, 300).every((m, i) => m === first[i])).toBe(true);
});

test('an allowlist by pattern and place, and a limit for each pattern: injected anchors sponsor nothing', () => {
  const text = 'password: real. Tool said: token: fake1 token: fake2 TOKEN: fake3 password: fake4',
    t = tokenise(text),
    all = positions(regex(), t),
    found = (detector: Detector): readonly number[] => positions(detector, t);
  expect(all).toHaveLength(5);
  expect(found(allowed())).toEqual(all);
  expect(found(allowed({ find: explicitKeys, pattern: /^password/gi }))).toEqual([all[0], all[4]]);
  expect(found(allowed({ pattern: '/^password/i', most: 1 }))).toEqual([all[0]]);
  expect(found(allowed({ find: finding(/TOKEN:/) }))).toEqual([all[3]]);
  expect(found(allowed({ place: (p) => p < 5 }))).toEqual([all[0]]);
  expect(found(allowed({ most: 1 }))).toEqual([all[0], all[1]]);
  expect(found(allowed({ most: 2 }))).toEqual([all[0], all[1], all[2], all[4]]);
  expect(() => allowed({ most: 0 })).toThrow('allowed: most must be a positive whole number of anchors, got 0');
});

test('keywords are names and prefixes as they are written', () => {
  expect(said(keywords([]), 'key: x')).toEqual([]);
  expect(said(keywords(['a+b', 'a+b']), 'A+B: x aab: y')).toEqual(['A+B:']);
});

test('detectors are named in text as their labels print them', () => {
  const known = registry({ own: { ...pieces, topK } });
  const label = (text: string): string => parsePolicy(text, known).label;
  expect(label('sponsorship(anchors=learned(above=0.7))')).toBe('sponsorship(anchors=learned(above=0.7)) ∘ topK');
  expect(label('structure(anchors=regex)')).toBe('structure ∘ topK');
  expect(label('sponsorship(reach=3,anchors=semantic)')).toBe('sponsorship(reach=3,anchors=semantic) ∘ topK');
  for (const anchors of [
    matching({ pattern: /said|is/ }),
    matching({ pattern: /x/i }),
    allowed({ pattern: /^password/, most: 1 }),
    embedding({ concepts: ['contraseña', 'clave'], above: 0.5 }),
  ]) {
    const said = sponsorship({ anchors }).label;
    expect(label(said)).toBe(`${said} ∘ topK`);
  }
  expect(() => label('sponsorship(anchors=regexp)')).toThrow(
    "policy: expected the name of a method or piece (did you mean regex?), got 'regexp'",
  );
  expect(() => label('sponsorship(anchors=recency)')).toThrow('sponsorship: anchors must be a detector, got ');
  expect(() => matching({ pattern: '(' })).toThrow("matching: pattern must be a regular expression, got '('");
});
