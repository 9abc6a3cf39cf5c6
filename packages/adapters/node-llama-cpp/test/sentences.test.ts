import fc from 'fast-check';
import { expect, it } from 'vitest';
import { sentencesOf } from '../src/retain-history.ts';

it('sentences end at a line, or at a mark before white space, and together are the text', () => {
  const said =
    'The server lies at api.example.com and costs 19.99 a month, in version 2.10.3 of June. Yes!\nAnd 3.5 more';
  expect(sentencesOf(said)).toEqual([
    'The server lies at api.example.com and costs 19.99 a month, in version 2.10.3 of June. ',
    'Yes!\n',
    'And 3.5 more',
  ]);
  fc.assert(
    fc.property(fc.stringMatching(/^[ab.!?\n \d]{0,40}$/), (text) => {
      const all = sentencesOf(text);
      expect(all.join('')).toBe(text);
      for (const sentence of all.slice(0, -1)) expect(sentence).toMatch(/[.!?\n]\s*$/);
    }),
  );
});
