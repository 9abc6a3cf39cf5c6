import fc from 'fast-check';
import { expect, test } from 'vitest';
import { retain } from '@kv/cpu';
import type { Cache } from '@kv/core';
import { parsePolicy } from '../src/index.ts';

const cacheOf = (numbers: readonly number[]): Cache => {
  const n = 24,
    heads = 2,
    array = (by: number) => ({
      data: Float32Array.from({ length: heads * n }, (_, i) => numbers[(i * by) % numbers.length]),
      shape: [heads, n, 1],
    }),
    layer = (by: number) => ({ keys: array(by), values: array(by + 1), queries: array(by + 2) });
  return { queryHeads: heads, layers: [layer(1), layer(4)] };
};

test.each([
  'snapkv(window=4) | mass(epsilon=0.01)',
  'knorm | threshold(at=-0.5,window=4)',
  'knorm | duoAttention(slots=4,scores=1/0 0/1)',
  'snapkv(window=4) | atLeast(slots=12)',
])('after `%s`, which chooses the size, other allocators share out what it chose', (chooses) =>
  fc.assert(
    fc.asyncProperty(
      fc.array(fc.integer({ min: -200, max: 200 }), { minLength: 31, maxLength: 31 }),
      fc.integer({ min: 5, max: 10 }),
      async (whole, budget) => {
        const cache = cacheOf(whole.map((x) => x / 100)),
          total = async (text: string): Promise<number> =>
            (await retain(parsePolicy(`${text} | topK`), cache, { budget })).budgets.flat().reduce((a, b) => a + b);
        const chosen = await total(chooses);
        for (const next of ['adaKV', 'modelWide', 'topScoreBudgets'])
          expect(await total(`${chooses} | ${next}`)).toBeLessThanOrEqual(chosen);
      },
    ),
    { numRuns: 25 },
  ),
);
