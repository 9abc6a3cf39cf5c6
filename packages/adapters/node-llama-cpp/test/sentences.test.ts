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
  expect(sentencesOf('No。...x?! 。 Yes')).toEqual(['No。', '...x?! ', '。 ', 'Yes']);
  fc.assert(
    fc.property(fc.stringMatching(/^[ab.!?\n \d]{0,40}$/), (text) => {
      const all = sentencesOf(text);
      expect(all.join('')).toBe(text);
      for (const sentence of all.slice(0, -1)) expect(sentence).toMatch(/[.!?\n]\s*$/);
    }),
  );
});

it('a run of marks is read once, however long', () => {
  const marks = `${'.'.repeat(300_000)}x`; // tried from every mark, minutes
  expect(sentencesOf(marks)).toEqual([marks]);
});
