import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { compose, scoreTransform } from '@kv/core';
import { apply, cpu, readCpu } from '@kv/cpu';
import { compile, emptyDraft, runSteps } from '@kv/core/engine';
import { each, scoreAllocatorLaws } from '@kv/laws';
import { adaKV } from '../src/index.ts';
import { adaKvOracle } from './ada-kv.oracle.ts';

describe.each(
  [adaKV(), adaKV({ safeguard: 1 }), adaKV({ safeguard: 0 })].map((piece) => [piece.label, piece] as const),
)('%s', (_, piece) => {
  each(scoreAllocatorLaws(piece, { runs: 60 }), test);
});

const cases = fc
  .record({
    heads: fc.integer({ min: 1, max: 3 }),
    n: fc.integer({ min: 1, max: 8 }),
    safeguard: fc.constantFrom(0, 0.2, 0.5, 1),
    budget: fc.nat(8),
    forced: fc.nat(2),
  })
  .chain((c) =>
    fc.record({
      c: fc.constant(c),
      scores: fc.array(fc.array(fc.integer({ min: -3, max: 3 }), { minLength: c.n, maxLength: c.n }), {
        minLength: c.heads,
        maxLength: c.heads,
      }),
    }),
  );
test('agrees with the oracle, forced slots counted', () => {
  fc.assert(
    fc.property(cases, ({ c: { heads, n, safeguard, forced, ...c }, scores }) => {
      const budget = Math.min(n, c.budget),
        must = Math.min(forced, budget),
        mask = scores.flatMap((row) => row.map((_, i) => Number(i < must)));
      const force = scoreTransform('force', {}, ({ ops, scores: s }) => ({
        scores: s,
        forced: ops.from({ data: Float32Array.from(mask), shape: [heads, n] }),
      }))();
      expect(apply(compose(force, adaKV({ safeguard })), { scores, budget, at: { kvHeads: heads } }).budgets).toEqual(
        adaKvOracle(
          scores,
          scores.map(() => budget),
          safeguard,
          scores.map(() => Array.from({ length: must }, (_, i) => i)),
        ),
      );
    }),
  );
});

test('budgets that differ from head to head: the safeguard is a share of the larger of own and mean', () => {
  const shared = ({
    heads,
    n,
    safeguard,
    scores,
    budgets,
  }: {
    readonly heads: number;
    readonly n: number;
    readonly safeguard: number;
    readonly scores: readonly (readonly number[])[];
    readonly budgets: readonly number[];
  }): number[] => {
    const at = {
      layer: 0,
      layers: 1,
      queryHeads: heads,
      kvHeads: heads,
      headDim: 1,
      step: 0,
      promptLength: n,
      length: n,
      slots: n,
      aligned: true,
      budget: n,
      selectRows: heads,
    };
    const layer = { at, budgets, read: () => undefined },
      draft = {
        ...emptyDraft(layer, cpu.ops),
        scores: cpu.ops.from({ data: Float32Array.from(scores.flat()), shape: [heads, n] }),
      };
    return Array.from(
      readCpu(runSteps(compile(adaKV({ safeguard })).steps, [layer], cpu.ops, [draft])[0].budgets).data,
    );
  };
  fc.assert(
    fc.property(
      cases,
      fc.array(fc.nat(8), { minLength: 3, maxLength: 3 }),
      ({ c: { heads, n, safeguard }, scores }, given) => {
        const budgets = scores.map((_, h) => Math.min(n, given[h]));
        expect(shared({ heads, n, safeguard, scores, budgets })).toEqual(
          adaKvOracle(
            scores,
            budgets,
            safeguard,
            scores.map(() => []),
          ),
        );
      },
    ),
  );
  const low = [
    [0, 0, 0, 0, 0, 0],
    [9, 9, 9, 9, 9, 9],
  ];
  expect(shared({ heads: 2, n: 6, safeguard: 0.5, scores: low, budgets: [1, 4] })).toEqual([1, 4]);
  expect(shared({ heads: 2, n: 6, safeguard: 0.2, scores: low, budgets: [1, 4] })).toEqual([1, 4]); // at least 1
});

test('a safeguard of 1 is uniform, of 0 one top-k over the layer', () => {
  const scores = [
    [9, 8, 7, 6],
    [1, 2, 3, 4],
  ];
  expect(apply(adaKV({ safeguard: 1 }), { scores, budget: 2 }).budgets).toEqual([2, 2]);
  expect(apply(adaKV({ safeguard: 0 }), { scores, budget: 2 }).budgets).toEqual([4, 0]);
});
test('a safeguard that is no share is an error', () => {
  expect(() => adaKV({ safeguard: 2 })).toThrow('adaKV: safeguard must be a share from 0 to 1, got 2');
});
