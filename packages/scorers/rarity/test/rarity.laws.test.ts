import { describe, expect, test } from 'vitest';
import { each, scorerLaws } from '@kv/laws';
import { frequency, rarity } from '../src/index.ts';

describe.each(
  [rarity(), rarity({ form: 'inverse' }), rarity({ form: 'exponential' }), frequency()].map(
    (piece) => [piece.label, piece] as const,
  ),
)('%s', (_, piece) => {
  each(scorerLaws(piece), test);
});

test('the form is checked', () => {
  expect(() => rarity({ form: 'linear' as 'log' })).toThrow(
    "rarity: form must be 'log' or 'inverse' or 'exponential', got 'linear'",
  );
});
