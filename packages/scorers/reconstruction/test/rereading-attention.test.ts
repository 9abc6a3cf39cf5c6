import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { apply } from '@kv/cpu';
import { each, scene, sceneSpecs, scorerLaws } from '@kv/laws';
import { rereadingAttention, rereading } from '../src/index.ts';
import { kvcomposeOracle } from './kvzip.oracle.ts';
import { largestWeights } from './largest-weights.ts';

describe('rereadingAttention', () => {
  each(scorerLaws(rereadingAttention(), { signals: largestWeights(rereading), runs: 60 }), test);
});

test('agrees with the oracle: mean over the group, plus the mean over all heads that hold the position', () => {
  const agrees = (rows: number[][], placed: number[][], aligned: boolean): void => {
    const got = apply(rereadingAttention(), { attention: rows, positions: placed, at: { aligned } }).scores!.data,
      n = placed[0].length;
    kvcomposeOracle(rows, placed).forEach((row, g) => row.forEach((x, i) => expect(got[g * n + i]).toBeCloseTo(x, 5)));
  };
  fc.assert(
    fc.property(sceneSpecs({ layers: 1, ragged: false }), fc.boolean(), (spec, aligned) => {
      const {
          at: { slots: n, kvHeads: G, queryHeads: H },
          attention,
          positions,
        } = scene(spec).layers[0],
        cut = (x: ArrayLike<number>, rows: number) =>
          Array.from({ length: rows }, (_, r) => Array.from({ length: n }, (__, i) => x[r * n + i]));
      agrees(cut(attention, H), cut(positions, G), aligned);
    }),
    { numRuns: 60 },
  );
  agrees(
    [
      [0.1, 0.2, 0.3],
      [0.5, 0.4, 0.9],
    ],
    [
      [0, 1, 2],
      [0, 2, 3],
    ],
    false,
  );
});
test('the provider asks for one pass over the context itself, nothing before it', async () => {
  const asked: number[][] = [];
  await rereading.provide!(
    {
      ids: [7, 8],
      observeMax: async (ids: readonly number[]) => {
        asked.push([...ids]);
        return { shape: [1, 2], dtype: 'f32' };
      },
    } as never,
    0,
  );
  expect(asked).toEqual([[7, 8]]);
});
