import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { Tokens } from '@kv/core';
import { details, detailsOf } from '../src/index.ts';
import { tokenise } from './tokenise.ts';

type Writable = { -readonly [K in keyof Tokens]: Tokens[K] };
const found = (text: string): string[] => detailsOf(tokenise(text, 1)).map(({ value }) => text.slice(...value));

test.each([
  ['Your order number is 48213976.', ['48213976']],
  ['The Paris code is: KQXWZPTR.', ['KQXWZPTR']],
  ['ticket #4821 and INC0012345, then PO-2024-113', ['#4821', 'INC0012345', 'PO-2024-113']],
  ['{"content": "{\\"order_id\\": \\"A7-9931\\", \\"total\\": 12.5}"}', ['A7-9931']],
  ['ids: ["48213", "48214"]', ['48213', '48214']],
  ['2026-01-02 10:00:00 request_id=9f86d081 took 12ms', ['9f86d081']],
  ['| order | total |\n| --- | --- |\n| 48213 | 12.00 |\n', ['48213']],
  ['id,city\n48213,Graz\n48214,Linz', ['48213', '48214']],
  ['https://a.example/x?api_key=Zx81kQ02mm&page=2', ['Zx81kQ02mm']],
  ['postgres://app:s3cret@db:5432/x is up', ['postgres://app:s3cret@db:5432/x']],
  ['export API_KEY="two words 1"', ['two words 1']],
  ['Authorization: Bearer abc.def123.ghi', ['abc.def123.ghi']],
  ['it is 3f2504e0-4f89-11d3-9a0c-0305e82c3301', ['3f2504e0-4f89-11d3-9a0c-0305e82c3301']],
  ['My password, by the way, is hunter22.', ['hunter22']],
  ['password：hunter22', ['hunter22']],
  ['the endpoint is https://api.example.org/v2, and', ['https://api.example.org/v2']],
  ['Endpoint db.internal:5432', ['db.internal:5432']],
  ['"webhook": "/hooks/in"', ['/hooks/in']],
  ['We meet at 48.2082, 16.3738. Bring tea.', ['48.2082, 16.3738']],
  ['geo 51.5072,-0.1276', ['51.5072,-0.1276']],
  ['coordinates: 48.2082° N, 16.3738° E', ['48.2082° N, 16.3738° E']],
  ['at 47°36′22″N 122°19′55″W', ['47°36′22″N 122°19′55″W']],
  ['{"lat": 48.2082, "lon": 16.3738}', ['48.2082', '16.3738']],
])('details of %s', (text, values) => {
  expect(found(text)).toEqual(values);
});
test.each([
  'She said that the key was under the mat, and 1848 was a hard year.',
  // biome-ignore lint/suspicious/noTemplateCurlyInString: a placeholder as files have it
  'password: ${DB_PASSWORD}\ntoken: <your token>\nAPI_KEY=os.environ["API_KEY"]',
  '{"token_type": "Bearer", "max_tokens": 4096, "order": "desc", "code": 404}',
  'The session lasted until 16:30, at 12.5 %, version 2.14.1 on 10.0.0.1',
  'losses 0.1234, 0.5678 and 1.2345, 2.3456, 3.4567; 1.1234 2.2345 3.3456',
  'The endpoint returns a list of pages.',
  'if (token === undefined) throw new Error("expected a key");',
])('none in %s', (text) => {
  expect(found(text)).toEqual([]);
});
test('secrets are worth most, and a value that was there before a quarter', () => {
  const text =
    'order number 48213976, password: hunter22, order number 48213976, 3f2504e0-4f89-11d3-9a0c-0305e82c3301. ';
  expect(
    details()
      .run(tokenise(text, 1))
      .map((one) => typeof one === 'object' && one.worth),
  ).toEqual([0.8, 1, 0.2, 0.6]);
});

const PIECES = [
  'The password is ',
  'hunter22',
  '\n',
  'order #',
  '48',
  '213',
  '976',
  ' and ',
  '{"id": "',
  '", "',
  'token":"',
  'a1B2c3D5e4F6g7H8',
  '| id | x |\n',
  '|---|---|\n',
  '| 77123 | b |\n',
  'https://u:p4ss@h/x?key=',
  '&',
  '=',
  ' ',
  'ids: [',
  '1234, ',
  ']',
  '3f2504e0-4f89-11d3-9a0c-',
  '0305e82c3301',
  'é🔑',
  'API_KEY=',
  'id,n\n',
  '48213,b\n',
  '"',
];
test('a text that grows token by token has the details of the whole', () => {
  fc.assert(
    fc.property(
      fc.array(fc.constantFrom(...PIECES), { minLength: 1, maxLength: 120 }),
      fc.array(fc.integer({ min: 1, max: 120 }), { maxLength: 6 }),
      (pieces, cuts) => {
        const growing: Writable = tokenise('');
        for (const n of [...cuts, pieces.length].sort((a, b) => a - b)) {
          Object.assign(growing, tokenise(pieces.slice(0, n).join(''), 3));
          detailsOf(growing);
        }
        const whole = detailsOf(tokenise(pieces.join(''), 3));
        expect(detailsOf(growing)).toEqual(whole);
        whole.forEach(({ value: [from, to] }, i) =>
          expect((whole[i - 1]?.value[1] ?? 0) <= from && from < to && to <= growing.text.length).toBe(true),
        );
      },
    ),
    { numRuns: 200 },
  );
});
test('in a block that ends within a value its beginning is an anchor already', () => {
  for (const text of ['My order number is 48', 'use 3f2504e0-4f89', 'password: h'])
    expect(details().run(tokenise(text, 1)).at(-1)).toMatchObject({ value: [text.lastIndexOf(' ') + 1, text.length] });
});
test.each([
  ['letters', 'a'],
  ['digits', '7'],
  ['letters and digits', 'a7'],
  ['signs', '='],
  ['quotes', '"'],
  ['slashes', '\\'],
  ['keys', 'password='],
  ['keys of lists', 'ids=['],
  ['base64', 'aB3+/'],
  ['addresses', 'a://b:'],
  ['columns', 'id,'],
  ['lines', 'id|n\n'],
  ['nouns', 'order number '],
  ['spoken', 'the password was a code and '],
  ['dashes', 'A7-'],
  ['brackets', '([{'],
  ['spaces', ' '],
  ['colons', 'a:'],
  ['rules', '-'],
  ['words with hyphens', 'a-'],
  ['words before a code', '-a '],
  ['names of secrets', 'shared signing '],
])('a long run of %s ends: 100,000 characters, read as they come', (_, of) => {
  const text = of.repeat(Math.ceil(1e5 / of.length)).slice(0, 1e5),
    growing: Writable = tokenise('');
  for (const share of [0.25, 0.5, 0.75, 1]) {
    growing.text = text.slice(0, share * text.length);
    growing.offsets = [[0, growing.text.length]];
    expect(detailsOf(growing).length).toBeGreaterThanOrEqual(0);
  }
});
