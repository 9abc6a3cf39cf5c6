import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { communication, explicitKeys, matching, regex } from '../src/index.ts';
import { positions } from './tokenise.ts';

/** A text cut into words, spaces before them, and single signs. */
const tokenise = (text: string) => {
  const offsets = [...text.matchAll(/ ?[A-Za-z]+|[^]/gu)].map((m) => [m.index, m.index + m[0].length] as const);
  return { ids: offsets.map((_, i) => i), text, offsets };
};
const found = (text: string): string[] => {
  const t = tokenise(text);
  return positions(regex(), t).map((i) => text.slice(0, t.offsets[i][1]));
};

test.each([
  ['The secret code is: XK7M9P2Q', 'The secret code is:'],
  ['My code was: 12', 'My code was:'],
  ['password: hunter2', 'password:'],
  ['PASSWORD = hunter2', 'PASSWORD ='],
  ['DB_PASSWORD=hunter2', 'DB_PASSWORD='],
  ['AWS_SECRET_ACCESS_KEY=abc', 'AWS_SECRET_ACCESS_KEY='],
  ['{"api_key": "sk-1"}', '{"api_key":'],
  ["{'apiKey': 'sk-1'}", "{'apiKey':"],
  ['Authorization: Bearer abc', 'Authorization:'],
  ['X-Api-Key: abc', 'X-Api-Key:'],
  ['session_id=42', 'session_id='],
  ['  token: abc # yaml', '  token:'],
  ['call_api(key="abc")', 'call_api(key='],
  ['🔑 key: abc', '🔑 key:'],
  ['My API key is AB12', 'My API key is'],
  ['The password is hunter2', 'The password is'],
  ['The passphrase was swordfish.', 'The passphrase was'],
  ['my pin is 0042', 'my pin is'],
  ['curl -H Bearer abc.def', 'curl -H Bearer'],
  ['postgres://anna@db/main', 'postgres://'],
  ['see https://anna:pw@host/x', 'see https://'],
  ['My password, by the way, is hunter2', 'My password, by the way, is'],
  ['the API key, for what it is worth, was AB12', 'the API key, for what it is worth, was'],
  ['password：hunter2', 'password：'],
  ['token ＝ abc', 'token ＝'],
  ['The endpoint https://api.example.org/v2', 'The endpoint'],
  ['our endpoint is db.internal:5432', 'our endpoint is'],
  ['POST to the webhook at /hooks/42', 'POST to the webhook at'],
  ['base_url http://localhost:8080', 'base_url'],
  ['we meet at 48.2082, 16.3738 tonight', 'we meet at'],
  ['hidden near 47°36′N 122°19′W', 'hidden near'],
  ['coordinates: 48.2082° N, 16.3738° E', 'coordinates:'],
  ['{"lat": 48.2}', '{"lat":'],
])('%s', (text, until) => {
  expect(found(text)).toEqual([until]);
});

test.each([
  'monkey: yes',
  'the key is here',
  'if key == 3',
  'code::block',
  'keynote: talk',
  'code => 3',
  'tokens spent: 4',
  'password',
  'The password is required.',
  'my password was wrong',
  'The key is a small one',
  'the bearer of the letter',
  'Bearer bonds.',
  'https://example.org/a',
  'the secret is out',
  'The endpoint returns a list.',
  'My password, I think, was wrong',
  'a vector (0.1234, 0.2345, 0.3456)',
  'from 1.25, 3.75 to 4.5',
  'late: yes',
])('nothing in: %s', (text) => {
  expect(found(text)).toEqual([]);
});

test('every match counts, and the anchor is the token in which it ends', () => {
  expect(found('key: a\ntoken: b')).toEqual(['key:', 'key: a\ntoken:']);
  const offsets = [
    [0, 2],
    [2, 6],
    [6, 8],
  ] as const; // 'ke', 'y: a', 'bc'
  expect(positions(regex(), { ids: [0, 1, 2], text: 'key: abc', offsets })).toEqual([1]);
});

test('an own pattern; empty matches and a text without tokens find nothing', () => {
  const detect = matching({ pattern: /remember this number/i });
  expect(positions(detect, tokenise('Remember this number 42'))).toEqual([2]);
  expect(matching({ pattern: /x*/ }).run(tokenise('abc'))).toEqual([]);
  expect(regex().run({ ids: [], text: '', offsets: [] })).toEqual([]);
});

test('false positives in a novel: explicit keys take none of 16 protected slots, communication verbs all of them', () => {
  const text = readFileSync(new URL('../../../tasks/data/tom-sawyer.txt', import.meta.url), 'utf8'),
    words = text.split(/\s+/).length,
    book = tokenise(text);
  const perThousand = (matches: readonly unknown[]): number => (1000 * matches.length) / words;
  expect(words).toBeGreaterThan(5000);
  expect(explicitKeys(book)).toEqual([]);
  expect(perThousand(communication(book))).toBeCloseTo(11.6, 1);
  expect(communication(book).length).toBeGreaterThan(16);
});
