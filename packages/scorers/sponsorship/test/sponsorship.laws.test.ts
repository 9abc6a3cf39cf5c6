import { describe, expect, test } from 'vitest';
import { each, scorerLaws } from '@kv/laws';
import { learnRank, matching, pension, ranker, recency, sponsorship, structure } from '../src/index.ts';

const tenths = ranker(
  'tenths',
  {},
  () =>
    ({ ids }) =>
      ids.map((id) => id / 10),
);
describe.each(
  [
    sponsorship(),
    sponsorship({ reach: 2, strength: 3, decay: 1, anchors: matching({ pattern: /said|is/ }) }),
    structure(),
    recency(),
    pension(),
    learnRank({ rank: tenths() }),
  ].map((piece) => [piece.label, piece] as const),
)('%s', (_, piece) => {
  each(scorerLaws(piece), test);
});

test.each([
  ['reach', { reach: 0 }],
  ['strength', { strength: -1 }],
  ['decay', { decay: 1.1 }],
])('%s is checked', (option, options) => {
  expect(() => sponsorship(options)).toThrow(`sponsorship: ${option} must be`);
});

test.each([
  ['reach', () => learnRank({ reach: 0 })],
  ['above', () => learnRank({ above: 2 })],
  ['rate', () => pension({ rate: -1 })],
])('%s is checked too', (option, make) => {
  expect(make).toThrow(`${option} must be`);
});

test('labels say what differs from the paper', () => {
  expect(sponsorship().label).toBe('sponsorship');
  expect(sponsorship({ reach: 8, strength: 3, decay: 0.5, anchors: matching({ pattern: /x/ }) }).label).toBe(
    'sponsorship(reach=8,strength=3,decay=0.5,anchors=matching(pattern=x))',
  );
});
