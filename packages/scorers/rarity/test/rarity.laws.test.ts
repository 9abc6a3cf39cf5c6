import { describe, test } from 'vitest';
import { each, scorerLaws } from '@kv/laws';
import { frequency, rarity } from '../src/index.ts';

describe.each([rarity(), frequency()].map((piece) => [piece.label, piece] as const))('%s', (_, piece) => {
  each(scorerLaws(piece), test);
});
