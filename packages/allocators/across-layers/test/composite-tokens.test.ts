import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { cpu, readCpu } from '@kv/cpu';
import { compile, emptyDraft, runSteps } from '@kv/core/engine';
import type { EventLayer } from '@kv/core/engine';
import { each, kernelLaws, scoreAllocatorLaws } from '@kv/laws';
import { byRank, compositeTokens } from '../src/index.ts';
import { compositeOracle } from './composite.oracle.ts';
import type { Entry } from './model-wide.oracle.ts';

// slots move between layers, and all heads of a layer get the same: the sum of one layer does not stay
const { total: _total, ...laws } = scoreAllocatorLaws(compositeTokens(), { runs: 20 });
describe('compositeTokens', () => {
  each(laws, test);
});
describe('by-rank', () => {
  each(
    kernelLaws(byRank, {
      runs: 20,
      make: ({ rows, slots, lengths }) => {
        const rank = new Float32Array(rows * slots),
          valid = (r: number): number => lengths?.[r] ?? slots;
        for (let r = 0; r < rows; r++) for (let i = 0; i < valid(r); i++) rank[r * slots + i] = valid(r) - 1 - i;
        return {
          inputs: {
            x: {
              data: Float32Array.from({ length: rows * slots }, (_, i) => Math.sin(i)),
              shape: [rows, slots],
              lengths,
            },
            rank: { data: rank, shape: [rows, slots] },
          },
        };
      },
    }),
    test,
  );
});

const entry = (score: fc.Arbitrary<number>) =>
  fc
    .record({
      score,
      forced: fc.oneof({ weight: 5, arbitrary: fc.constant(false) }, fc.boolean()),
      banned: fc.oneof({ weight: 5, arbitrary: fc.constant(false) }, fc.boolean()),
    })
    .map((e): Entry => ({ ...e, banned: e.banned && !e.forced }));
const scores = fc.constantFrom(
  fc.integer({ min: -2, max: 2 }),
  fc.integer({ min: -4096, max: 4096 }).map((x) => x / 8),
); // halves of sums are exact
const models = scores.chain((score) =>
  fc
    .integer({ min: 1, max: 4 })
    .chain((layers) =>
      fc
        .integer({ min: 1, max: 2 })
        .chain((G) =>
          fc.tuple(
            ...Array.from({ length: layers }, () =>
              fc
                .integer({ min: 1, max: 7 })
                .chain((n) =>
                  fc.array(fc.array(entry(score), { minLength: n, maxLength: n }), { minLength: G, maxLength: G }),
                ),
            ),
          ),
        ),
    ),
);

function budgetsOf(model: readonly (readonly (readonly Entry[])[])[], budget: number): number[][] {
  const { ops } = cpu,
    G = model[0].length;
  const layers = model.map((heads, layer): EventLayer => {
    const n = heads[0].length;
    return {
      at: {
        layer,
        layers: model.length,
        queryHeads: G,
        kvHeads: G,
        headDim: 1,
        step: 0,
        promptLength: n,
        length: n,
        slots: n,
        aligned: true,
        budget,
        selectRows: G,
      },
      budgets: heads.map(() => Math.min(budget, n)),
      read: () => undefined,
    };
  });
  const put = (l: number, of: (e: Entry) => number) =>
    ops.from({ data: Float32Array.from(model[l].flat(), of), shape: [G, model[l][0].length] });
  const drafts = layers.map((layer, l) => ({
    ...emptyDraft(layer, ops),
    scores: put(l, (e) => e.score),
    forced: put(l, (e) => Number(e.forced)),
    banned: put(l, (e) => Number(e.banned)),
  }));
  return runSteps(compile(compositeTokens()).steps, layers, ops, drafts).map((d) =>
    Array.from(readCpu(d.budgets).data),
  );
}

test('sizes are those of sorting every composite of the model, ties in order, layers of any length', () => {
  fc.assert(
    fc.property(models, fc.nat(8), (model, budget) => {
      expect(budgetsOf(model, budget)).toEqual(
        compositeOracle(
          model,
          model.map((heads) => Math.min(budget, heads[0].length)),
        ),
      );
    }),
    { numRuns: 150 },
  );
});
test('all heads of a layer get the same, no layer goes empty, and the sum is what was asked for', () => {
  const open = (score: number): Entry => ({ score, forced: false, banned: false });
  expect(
    budgetsOf(
      [
        [
          [1, 1, 1],
          [1, 1, 1],
        ],
        [
          [9, 8, 7],
          [9, 8, 7],
        ],
        [
          [0, 0, 0],
          [0, 0, 0],
        ],
      ].map((heads) => heads.map((row) => row.map(open))),
      2,
    ),
  ).toEqual([
    [3, 3],
    [2, 2],
    [1, 1],
  ]); // the first layer counts as the best of any
});
