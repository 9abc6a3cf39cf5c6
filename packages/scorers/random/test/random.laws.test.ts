import { expect, test } from 'vitest';
import { each, scorerLaws } from '@kv/laws';
import { random } from '../src/index.ts';

each(scorerLaws(random({ seed: 7 })), test);

test.each([-1, 1.5, 2 ** 32, Number.NaN])('the seed %d is refused', (seed) => {
  expect(() => random({ seed })).toThrow(`random: seed must be a whole number below 2^32, got ${seed}`);
});
