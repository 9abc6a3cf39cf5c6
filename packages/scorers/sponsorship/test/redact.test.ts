import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { redact } from '../src/index.ts';

test.each([
  ['password: hunter2 and more', 'password: [redacted] and more'],
  ['{"api_key": "AB12-CD34", "n": 1}', '{"api_key": "[redacted]", "n": 1}'],
  ['Authorization: Bearer abc.def', 'Authorization: Bearer [redacted]'],
  ['DB_PASSWORD=x1y2 TOKEN = y2z3', 'DB_PASSWORD=[redacted] TOKEN = [redacted]'],
  ['postgres://me:secret@host/db', 'postgres://[redacted]@host/db'],
  ['https://host/a@b', 'https://host/a@b'],
  ['nothing to hide: 12', 'nothing to hide: 12'],
])('redacts %s', (text, hidden) => {
  expect(redact(text)).toBe(hidden);
});

describe('a text that follows another', () => {
  test.each([
    ['a key that ends what went before', ' hunter2 and', 'the password:', ' [redacted] and'],
    ['a value that is cut between them', 'ter2 and', 'the password: hun', '[redacted] and'],
    ['a value that is repeated', 'It is hunter2!', 'password: hunter2. Which?', 'It is [redacted]!'],
    ['nothing of either', 'It is green', 'Which colour?', 'It is green'],
  ])('%s', (_, text, before, hidden) => {
    expect(redact(text, before)).toBe(hidden);
  });
  const secret = fc.stringMatching(/^[A-Za-z0-9_+/-]{8,24}$/);
  test('no credential of a prompt is left in an answer', () => {
    fc.assert(
      fc.property(
        secret,
        fc.constantFrom('password: ', 'API_KEY=', '"token": "', 'Authorization: Bearer ', '--secret '),
        fc.array(fc.oneof(fc.lorem({ maxCount: 3 }), fc.constant('')), { minLength: 2, maxLength: 2 }),
        (value, key, [first, last]) =>
          !redact(`${first} ${value} ${last}`, `Remember ${key}${value}" and go on.`).includes(value),
      ),
    );
  });
});
