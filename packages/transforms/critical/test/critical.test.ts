import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { apply, cpu, readCpu } from '@kv/cpu';
import { compile, emptyDraft, runSteps } from '@kv/core/engine';
import { each, transformLaws } from '@kv/laws';
import { twoStageScores, outputShare } from '../src/index.ts';
import { criticalOracle } from './critical.oracle.ts';

describe.each(
  [twoStageScores(), twoStageScores({ first: 1, epsilon: 0 }), outputShare()].map(
    (piece) => [piece.label, piece] as const,
  ),
)('%s', (_, piece) => {
  each(transformLaws(piece, { runs: 50 }), test);
});

const numbers = (n: number): fc.Arbitrary<number[]> =>
  fc.array(
    fc.integer({ min: 0, max: 12 }).map((x) => x / 4),
    { minLength: n, maxLength: n },
  );
const cases = fc
  .record({
    n: fc.integer({ min: 1, max: 12 }),
    group: fc.integer({ min: 1, max: 3 }),
    budget: fc.nat(14),
    first: fc.constantFrom(0, 0.25, 0.5, 1),
    forced: fc.nat(3),
  })
  .chain((c) =>
    fc.record({
      c: fc.constant(c),
      scores: numbers(c.n),
      norms: fc.array(numbers(c.n), { minLength: c.group, maxLength: c.group }),
      some: fc.shuffledSubarray(
        Array.from({ length: c.n }, (_, i) => i),
        { maxLength: Math.min(c.forced, c.n) },
      ),
    }),
  );

test('both stages agree with the oracle; forced slots count as best', () => {
  fc.assert(
    fc.property(cases, ({ c: { n, group, budget, first }, scores, norms, some }) => {
      const { ops } = cpu,
        at = {
          layer: 0,
          layers: 1,
          queryHeads: group,
          kvHeads: 1,
          headDim: 1,
          step: 0,
          promptLength: n,
          length: n,
          slots: n,
          aligned: true,
          budget,
          selectRows: 1,
        };
      const layer = {
        at,
        budgets: [Math.min(budget, n)],
        read: () => ops.from({ data: Float32Array.from(norms.flat()), shape: [group, n] }),
      };
      const draft = {
        ...emptyDraft(layer, ops),
        scores: ops.from({ data: Float32Array.from(scores), shape: [1, n] }),
        forced: ops.from({ data: Float32Array.from(scores, (_, i) => Number(some.includes(i))), shape: [1, n] }),
      };
      const out = runSteps(compile(twoStageScores({ first })).steps, [layer], ops, [draft])[0],
        want = criticalOracle(scores, norms, Math.min(budget, n), first, 1e-4, some);
      const marked = Array.from(readCpu(out.forced!).data).flatMap((x, i) => (x ? [i] : []));
      expect(marked).toEqual([...new Set([...want.forced, ...some])].sort((a, b) => a - b));
      want.scores.forEach((s, i) => expect(readCpu(out.scores!).data[i]).toBeCloseTo(s, 5));
    }),
    { numRuns: 100 },
  );
});

test('outputShare compares the heads of a layer at every slot', () => {
  const { data } = apply(outputShare(), {
    scores: [
      [1, 2],
      [1, 2],
    ],
    outputNorms: [
      [1, 3],
      [3, 1],
      [6, 4],
      [6, 4],
    ],
    at: { kvHeads: 2, queryHeads: 4 },
  }).scores!;
  // norms 2 2 and 6 4, means 4 and 3
  expect(Array.from(data)).toEqual([0.5, Math.fround((2 * 2) / 3), 1.5, Math.fround((2 * 4) / 3)]);
});

describe('options are checked', () => {
  test.each([
    ['first', () => twoStageScores({ first: 1.5 })],
    ['epsilon', () => twoStageScores({ epsilon: -1 })],
  ])('%s', (option, make) => {
    expect(make).toThrow(new RegExp(`^twoStageScores: ${option} must be `));
  });
});
