import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { cpu, readCpu } from '@kv/cpu';
import { compile, emptyDraft, runSteps } from '@kv/core/engine';
import type { HostArray } from '@kv/core';
import type { EventLayer } from '@kv/core/engine';
import { each, kernelLaws, scoreAllocatorLaws } from '@kv/laws';
import type { KernelInputs, KernelSize } from '@kv/laws';
import { countFrom, inOrder, modelWide } from '../src/index.ts';
import { modelWideOracle } from './model-wide.oracle.ts';
import type { Entry } from './model-wide.oracle.ts';

describe('modelWide', () => {
  each(scoreAllocatorLaws(modelWide(), { runs: 30 }), test);
});
describe('in-order', () => {
  each(
    kernelLaws(inOrder, {
      runs: 20,
      make: ({ rows, seed }) => ({
        inputs: {
          wants: { data: Float32Array.from({ length: rows }, (_, r) => (r * 7 + seed) % 5), shape: [rows, 1] },
          rest: { data: Float32Array.of(seed % 9), shape: [1, 1] },
        },
      }),
    }),
    test,
  );
});

/** More scores than stripes, so that a thread counts several; rows that hold fewer; some before. */
const counting = ({ rows, slots, lengths, seed }: KernelSize): KernelInputs => {
  const put = (f: (i: number) => number, ...shape: number[]) => ({
    data: Float32Array.from({ length: shape.reduce((a, b) => a * b, 1) }, (_, i) => f(i)),
    shape,
  });
  return {
    inputs: {
      x: put((i) => ((i * 7 + seed) % 11) - 5, rows, slots),
      held: put((r) => lengths?.[r] ?? slots, rows, 1),
      edges: put((e) => e * 2 - 5, 1, 5),
      before: put((i) => i % 3, 4, 5),
    },
  };
};
describe('count-from', () => {
  each(kernelLaws(countFrom, { runs: 20, make: counting }), test);
});
test('count-from counts the scores that each edge does not exceed', () => {
  fc.assert(
    fc.property(fc.array(fc.nat(12), { minLength: 1, maxLength: 3 }), fc.nat(20), (lengths, seed) => {
      const { x, held, edges, before } = counting({
          rows: lengths.length,
          slots: Math.max(1, ...lengths),
          lengths,
          seed,
        }).inputs,
        put = (array: HostArray) => cpu.ops.from(array),
        scores = lengths.flatMap((m, r) =>
          Array.from(x.data)
            .slice(r * x.shape[1])
            .slice(0, m),
        );
      const got = readCpu(
        cpu.ops.kernel(countFrom, { x: put(x), held: put(held), edges: put(edges), before: put(before) }),
      ).data;
      Array.from(edges.data, (edge, e) =>
        expect([0, 1, 2, 3].reduce((sum, s) => sum + got[s * 5 + e] - before.data[s * 5 + e], 0)).toBe(
          scores.filter((score) => score >= edge).length,
        ),
      );
    }),
    { numRuns: 50 },
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
const SCORES = {
  few: fc.integer({ min: -2, max: 2 }),
  many: fc.integer({ min: -1e9, max: 1e9 }).map((x) => Math.fround(x / 997)),
  small: fc.integer({ min: 0, max: 1000 }).map((x) => Math.fround((x / 1000) ** 4)),
  huge: fc.constantFrom(-3e38, 3e38).map(Math.fround),
};
const models = fc.constantFrom(...Object.values(SCORES)).chain((score) =>
  fc.integer({ min: 1, max: 8 }).chain((n) =>
    fc.array(fc.array(fc.array(entry(score), { minLength: n, maxLength: n }), { minLength: 2, maxLength: 2 }), {
      minLength: 1,
      maxLength: 4,
    }),
  ),
);

test('budgets are those of sorting every slot of the model, ties in order, and their sum is exact', () => {
  fc.assert(
    fc.property(models, fc.nat(8), (model, budget) => {
      const { ops } = cpu,
        n = model[0][0].length,
        B = Math.min(budget, n);
      const layers = model.map(
        (_, layer): EventLayer => ({
          at: {
            layer,
            layers: model.length,
            queryHeads: 2,
            kvHeads: 2,
            headDim: 1,
            step: 0,
            promptLength: n,
            length: n,
            slots: n,
            aligned: true,
            budget,
            selectRows: 2,
          },
          budgets: [B, B],
          read: () => undefined,
        }),
      );
      const put = (l: number, of: (e: Entry) => number) =>
        ops.from({ data: Float32Array.from(model[l].flat(), of), shape: [2, n] });
      const drafts = layers.map((layer, l) => ({
        ...emptyDraft(layer, ops),
        scores: put(l, (e) => e.score),
        forced: put(l, (e) => Number(e.forced)),
        banned: put(l, (e) => Number(e.banned)),
      }));
      expect(
        runSteps(compile(modelWide()).steps, layers, ops, drafts).map((d) => Array.from(readCpu(d.budgets).data)),
      ).toEqual(modelWideOracle(model, B * 2 * model.length));
    }),
    { numRuns: 300 },
  );
});
