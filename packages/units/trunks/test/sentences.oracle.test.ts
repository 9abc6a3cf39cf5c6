import fc from 'fast-check';
import { expect, test } from 'vitest';
import { KvError } from '@kv/core';
import { cpu } from '@kv/cpu';
import { compile, emptyDraft, runSteps } from '@kv/core/engine';
import { sentences } from '../src/index.ts';
import { noise, randomTokens, sentencesOf } from './given.ts';

const texts = fc.record({
  n: fc.integer({ min: 1, max: 60 }),
  seed: fc.integer({ min: 1, max: 9999 }),
  maxSize: fc.integer({ min: 0, max: 9 }),
  top: fc.option(fc.integer({ min: 0, max: 5 }), { nil: undefined }),
});

test('sentences are cut at their ends, and the longer ones into the fewest parts of at most maxSize tokens, equal but for one; each scored by its three best, or by as many as are asked for', () => {
  fc.assert(
    fc.property(texts, ({ n, seed, maxSize, top }) => {
      const given = randomTokens(n, seed),
        scores = Array.from({ length: n }, (_, i) => noise(seed + 5)(i) * 20);
      const at = {
        layer: 0,
        layers: 1,
        queryHeads: 1,
        kvHeads: 1,
        headDim: 1,
        step: 0,
        promptLength: n,
        length: n,
        slots: n,
        aligned: true,
        budget: n,
        selectRows: 1,
      };
      const layer = {
        at,
        budgets: [n],
        read: ({ id }: { id: string }): unknown =>
          id === 'tokens'
            ? given
            : cpu.ops.from({ data: Uint32Array.from({ length: n }, (_, i) => i), shape: [1, n] }, 'u32'),
      };
      const { units, unitScores } = runSteps(compile(sentences({ maxSize, top })).steps, [layer], cpu.ops, [
        { ...emptyDraft(layer, cpu.ops), scores: cpu.ops.from({ data: Float32Array.from(scores), shape: [1, n] }) },
      ])[0];
      const of = Array.from((units!.of as unknown as { data: Uint32Array }).data),
        cut = Array.from({ length: units!.count }, (_, u) => of.flatMap((v, i) => (v === u ? [i] : [])));
      expect(cut.flat()).toEqual(Array.from({ length: n }, (_, i) => i));
      for (const sentence of sentencesOf(given)) {
        const parts = cut.filter((unit) => sentence.includes(unit[0])),
          sizes = parts.map((unit) => unit.length);
        expect(parts.flat()).toEqual(sentence);
        expect(parts.length).toBe(maxSize === 0 ? 1 : Math.ceil(sentence.length / maxSize));
        expect(Math.max(...sizes) - Math.min(...sizes)).toBeLessThanOrEqual(1);
      }
      Array.from((unitScores as unknown as { data: Float32Array }).data).forEach((x, u) => {
        const best = cut[u]
          .map((i) => scores[i])
          .sort((a, b) => b - a)
          .slice(0, top === 0 ? n : (top ?? 3));
        expect(x).toBeCloseTo(best.reduce((a, b) => a + b, 0) / best.length, 3);
      });
    }),
    { numRuns: 80 },
  );
  expect(() => sentences({ maxSize: 1.5 })).toThrow(KvError);
  expect(() => sentences({ top: -1 })).toThrow(KvError);
});
