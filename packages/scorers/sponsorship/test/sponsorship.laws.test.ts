import { describe, expect, test } from 'vitest';
import { each, scorerLaws } from '@kv/laws';
import { learnRank, matching, pension, recency, sponsorship, structure } from '../src/index.ts';

describe.each(
  [
    sponsorship(),
    sponsorship({ reach: 2, strength: 3, decay: 1, anchors: matching(/said|is/) }),
    structure(),
    recency(),
    pension(),
    learnRank({ rank: ({ ids }) => ids.map((id) => id / 10) }),
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
  ['reach', () => learnRank({ rank: () => [], reach: 0 })],
  ['above', () => learnRank({ rank: () => [], above: 2 })],
  ['rate', () => pension({ rate: -1 })],
])('%s is checked too', (option, make) => {
  expect(make).toThrow(`${option} must be`);
});

test('labels say what differs from the paper', () => {
  expect(sponsorship().label).toBe('sponsorship(reach=6)');
  expect(sponsorship({ reach: 8, strength: 3, decay: 0.5, anchors: matching(/x/) }).label).toBe(
    'sponsorship(reach=8,strength=3,decay=0.5,anchors=matching)',
  );
});
