import { expect, test } from 'vitest';
import { turnsOf } from '@kv/core/shared';
import type { Tokens } from '@kv/core';

/** Tokens of these texts; special ones have none. */
function tokensOf(words: readonly string[]): Tokens {
  const offsets: [number, number][] = [];
  let text = '';
  for (const word of words) {
    offsets.push([text.length, text.length + word.length]);
    text += word;
  }
  return { ids: words.map((_, i) => i), text, offsets };
}
const of = (words: readonly string[], length?: number): string =>
  turnsOf(tokensOf(words), length)
    .map(({ start, end, role }) => `${role || '-'} ${start}..${end}`)
    .join(', ');

test.each([
  [
    'ChatML, a name in two tokens',
    ['', 'system', '\n', 'Be brief.', '', '\n', '', 'as', 'sistant', '\n', 'Yes.'],
    'system 0..6, assistant 6..11',
  ],
  [
    'Llama 3, after its first token',
    ['', '', 'user', '', '\n\n', 'Hi', '', '', 'assistant', '', '\n\n'],
    '- 0..1, user 1..7, assistant 7..11',
  ],
  ['Gemma', ['', '', 'user', '\n', 'Hi', '', '\n', '', 'model', '\n'], '- 0..1, user 1..7, model 7..10'],
  ['a role at the end', ['', 'user', '\n', 'Hi', '', 'assistant'], 'user 0..4, assistant 4..6'],
  ['roles in ordinary text', ['The', ' user', '\n', 'assistant', '\n'], '- 0..5'],
  ['a word that begins like a role', ['', 'users', '\n', 'x', '', 'user', ' said'], '- 0..7'],
  ['nothing', [], ''],
])('%s', (_, words, want) => expect(of(words)).toBe(want));
test('only the first tokens count', () => {
  const words = ['', 'user', '\n', 'Hi', '', 'model', '\n', 'Yes'];
  expect([4, 5, 6, 8].map((n) => of(words, n))).toEqual([
    'user 0..4',
    'user 0..5',
    'user 0..4, model 4..6',
    'user 0..4, model 4..8',
  ]);
});
