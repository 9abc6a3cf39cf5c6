import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { compose, scoreTransform, weightScorer } from '@kv/core';
import { apply, cpu, readCpu } from '@kv/cpu';
import { compile, emptyDraft, planBudgets, runSteps } from '@kv/core/engine';
import type { AnySignal, Piece, Tensor } from '@kv/core';
import type { EventLayer } from '@kv/core/engine';
import { each, kernelLaws, scene, sceneSpecs, scoreAllocatorLaws, scorerLaws, stage } from '@kv/laws';
import type { Scene } from '@kv/laws';
import { entropyVarianceBudgets, cakeScores, topScoreBudgets, shareOut } from '../src/index.ts';
import { bestOracle, cakeOracle, preferenceOracle, shareOracle } from './layer-weights.oracle.ts';

// slots move between layers: the sum of one layer does not stay
describe.each(
  [
    entropyVarianceBudgets({ window: 2 }),
    entropyVarianceBudgets({ window: 3, tau1: 0.5, tau2: 2 }),
    topScoreBudgets({ window: 1 }),
  ].map((piece) => [piece.label, piece] as const),
)('%s', (_, piece) => {
  const { total: __, ...laws } = scoreAllocatorLaws(piece, { runs: 30 });
  each(laws, test);
});
describe('cakeScores', () => {
  each(scorerLaws(cakeScores({ window: 3, gamma: 5, kernel: 3 }), { positional: true, runs: 30 }), test);
});
describe('share-out', () => {
  each(
    kernelLaws(shareOut, {
      runs: 20,
      make: ({ slots, seed }) => {
        const n = Math.max(1, slots),
          of = (f: (i: number) => number) => ({
            data: Float32Array.from({ length: n }, (_, i) => f(i)),
            shape: [1, n],
          });
        return {
          inputs: {
            weights: of((i) => (i * 7 + seed) % 5),
            floors: of(() => 1),
            caps: of((i) => 2 + (i % 4)),
            total: { data: Float32Array.of(2 * n), shape: [1, 1] },
          },
        };
      },
    }),
    test,
  );
});

test('share-out agrees with one unit at a time', () => {
  const layer = fc.record({ w: fc.integer({ min: 0, max: 8 }), floor: fc.nat(3), cap: fc.nat(9) });
  fc.assert(
    fc.property(fc.array(layer, { minLength: 1, maxLength: 6 }), fc.nat(40), (layers, total) => {
      const put = (of: (l: (typeof layers)[number]) => number) =>
        cpu.ops.from({ data: Float32Array.from(layers, of), shape: [1, layers.length] });
      const got = readCpu(
        cpu.ops.kernel(shareOut, {
          weights: put((l) => l.w),
          floors: put((l) => l.floor),
          caps: put((l) => l.cap),
          total: cpu.ops.from({ data: [total], shape: [1, 1] }, 'f32'),
        }),
      ).data;
      expect(Array.from(got)).toEqual(
        shareOracle(
          layers.map((l) => l.w),
          total,
          layers.map((l) => l.floor),
          layers.map((l) => l.cap),
        ),
      );
    }),
    { numRuns: 200 },
  );
});

/** Returns a policy's budgets in each layer of an aligned scene. */
function budgets(
  piece: Piece,
  { layers }: Scene,
  read: (layer: number, signal: AnySignal) => Tensor | undefined = () => undefined,
): number[][] {
  const { ops } = cpu,
    events = layers.map(
      ({ at }, l): EventLayer => ({
        at,
        budgets: new Array<number>(at.kvHeads).fill(Math.min(at.slots, at.budget)),
        read: (s) => read(l, s),
      }),
    );
  return runSteps(
    compile(piece).steps,
    events,
    ops,
    events.map((e) => emptyDraft(e, ops)),
  ).map((d) => Array.from(readCpu(d.budgets).data));
}

test('layers that give all heads alike spend every slot also where earlier events left heads and layers unequal', () => {
  fc.assert(
    fc.property(
      sceneSpecs({ layers: 3 }),
      fc.constantFrom(entropyVarianceBudgets({ window: 2 }), topScoreBudgets({ window: 2, most: 100 })),
      (spec, piece) => {
        const on = scene(spec),
          lengths = on.layers.map((l) => l.lengths),
          policy = compile(piece),
          plan = planBudgets(policy, spec.budget, lengths),
          { ops } = cpu;
        const layers = stage(on, ops, {}).layers.map(
          (layer, l): EventLayer => ({ ...layer, budgets: plan.budgets[l] }),
        );
        const drafts = layers.map((layer, l) => ({
          ...emptyDraft(layer, ops),
          scores: ops.from(
            { data: on.layers[l].attention, shape: [layer.at.queryHeads, layer.at.slots] },
            'f32',
            layer.at.aligned
              ? undefined
              : ops.from(
                  {
                    data: Uint32Array.from(
                      { length: layer.at.queryHeads },
                      (_, h) => on.layers[l].lengths[Math.floor((h * layer.at.kvHeads) / layer.at.queryHeads)],
                    ),
                    shape: [layer.at.queryHeads],
                  },
                  'u32',
                ),
          ),
        }));
        const got = runSteps(policy.steps, layers, ops, drafts).map((d) => Array.from(readCpu(d.budgets).data)),
          all = lengths.flat().reduce((a, b) => a + b, 0);
        got.forEach((heads, l) =>
          heads.forEach((b, g) => {
            expect(Number.isInteger(b)).toBe(true);
            expect(b).toBeLessThanOrEqual(lengths[l][g]);
          }),
        );
        expect(got.flat().reduce((a, b) => a + b, 0)).toBe(Math.min(spec.budget * lengths.flat().length, all));
      },
    ),
    { numRuns: 80 },
  );
});

/**
 * Rows of weights of a layer's last queries, `[head][query][slot]`, made up: of causal queries, each row sums to 1;
 * every other layer looks at the window most of all.
 */
const windowRows = (layer: number, heads: number, queries: number, slots: number): number[][][] =>
  Array.from({ length: heads }, (_, h) =>
    Array.from({ length: queries }, (__, q) => {
      const e = Array.from({ length: slots }, (___, i) =>
          i > slots - queries + q
            ? 0
            : Math.exp(
                (layer % 2 === 1 && i >= slots - queries ? 4 : 0) +
                  3 * Math.sin(i * 1.9 + q * (layer + 0.3) + 5 * h + layer),
              ),
        ),
        sum = e.reduce((a, b) => a + b, 0);
      return e.map((x) => x / (sum || 1));
    }),
  );
/** Returns an engine's statistics of these rows. */
const saying = (rows: readonly (readonly (readonly number[])[])[], { id, args }: AnySignal): Tensor => {
  const H = rows.length,
    w = rows[0].length,
    n = rows[0][0].length,
    of =
      { squares: (a: number) => a * a, entropy: (a: number) => (a === 0 ? 0 : -a * Math.log(a)) }[
        String(args!['of'])
      ] ?? ((a: number) => a);
  if (id === 'queries') return cpu.ops.from({ data: new Float32Array(H * w), shape: [H, w, 1] });
  return cpu.ops.from({
    data: Float32Array.from(
      rows.flatMap((head) => head[0].map((_, j) => head.reduce((sum, row) => sum + of(row[j]), 0) / w)),
    ),
    shape: [H, n],
  });
};
/** A window size, and the number of queries in it: at the start of a sequence there are fewer. */
const windows = fc
  .record({ window: fc.constantFrom(1, 3, 5), queries: fc.integer({ min: 1, max: 5 }) })
  .map(({ window, queries }) => ({ window, queries: Math.min(window, queries) }));

test('CAKE shares by entropy and variance of the window', () => {
  fc.assert(
    fc.property(
      sceneSpecs({ ragged: false, layers: 3, slots: 40 }),
      windows,
      fc.constantFrom(1, 2),
      (spec, { window, queries }, tau2) => {
        const on = scene({ ...spec, budget: spec.slots - 1 }),
          { slots } = on.spec,
          rows = on.layers.map(({ at }, l) => windowRows(l, at.queryHeads, queries, slots)),
          before = Math.max(0, slots - window);
        const want = rows.map((layer) =>
          preferenceOracle(
            layer.map((head) => head.map((row) => row.slice(0, before))),
            1,
            tau2,
          ),
        );
        const total = on.layers.length * Math.max(0, Math.min(slots, slots - 1)),
          exact = shareOracle(
            want,
            total,
            want.map(() => Math.min(window, Math.max(0, slots - 1))),
            want.map(() => slots),
          );
        // rounding down in f32 may move single slots
        budgets(
          compose(
            weightScorer('any', {}, ({ ops, at }) =>
              ops.from({ data: new Float32Array(at.slots), shape: [1, at.slots] }),
            )(),
            entropyVarianceBudgets({ window, tau2 }),
          ),
          on,
          (l, s) => saying(rows[l], s),
        ).forEach((heads, l) => heads.forEach((b) => expect(Math.abs(b - exact[l])).toBeLessThanOrEqual(1)));
      },
    ),
    { numRuns: 60 },
  );
});

test("CAKE's scores are the mean and gamma times the variance over the queries there are, pooled before the window", () => {
  fc.assert(
    fc.property(
      fc.integer({ min: 1, max: 30 }),
      windows,
      fc.constantFrom(0, 5, 200),
      (slots, { window, queries }, gamma) => {
        const [rows] = windowRows(slots, 1, queries, slots),
          end = Math.max(0, slots - window),
          piece = cakeScores({ window, gamma, kernel: 3 });
        const got = apply(
            piece,
            Object.fromEntries(compile(piece).needs.map((s) => [s.as, readCpu(saying([rows], s))])),
          ).scores!.data,
          at = cakeOracle(
            rows.map((row) => row.slice(0, end)),
            gamma,
          );
        for (let i = 0; i < slots; i++)
          expect(
            Math.abs(got[i] - (i < end ? [i - 1, i, i + 1].reduce((sum, j) => sum + (at[j] ?? 0), 0) / 3 : 0)),
          ).toBeLessThan(1e-5 * Math.max(1, gamma));
      },
    ),
    { numRuns: 60 },
  );
});

test('DynamicKV counts the best scores of the whole model, and keeps the sum', () => {
  fc.assert(
    fc.property(
      fc.array(
        fc.array(
          fc.integer({ min: 0, max: 1000 }).map((x) => x / 16),
          { minLength: 8, maxLength: 8 },
        ),
        { minLength: 2, maxLength: 4 },
      ),
      fc.integer({ min: 1, max: 7 }),
      (rows, budget) => {
        const on = scene({
          layers: rows.length,
          kvHeads: 1,
          group: 1,
          slots: 8,
          dim: 1,
          ragged: false,
          evicted: 0,
          budget,
          weights: 'spread',
          vectors: 'spread',
          seed: 1,
        });
        const given = weightScorer('given', {}, ({ ops, at }) =>
          ops.from({ data: Float32Array.from(rows[at.layer]), shape: [1, 8] }),
        )();
        const got = budgets(
          compose(
            given,
            scoreTransform('last', {}, ({ ops, scores }) => ({ scores, forced: ops.lastSlots(scores, 1) }))(),
            topScoreBudgets({ window: 1, most: 100 }),
          ),
          on,
        ).flat();
        const want = bestOracle(
          rows.map((r) => r.slice(0, 7)),
          rows.length * (budget - 1),
        );
        expect(got.reduce((a, b) => a + b)).toBe(budget * rows.length);
        if (budget > 1)
          expect(got).toEqual(
            shareOracle(
              want,
              budget * rows.length,
              rows.map(() => 1),
              rows.map(() => 8),
            ),
          );
      },
    ),
    { numRuns: 60 },
  );
});

describe('options are checked', () => {
  test.each([
    ['window', () => entropyVarianceBudgets({ window: 0 })],
    ['tau1', () => entropyVarianceBudgets({ tau1: 0 })],
    ['tau2', () => entropyVarianceBudgets({ tau2: -1 })],
    ['gamma', () => cakeScores({ gamma: -1 })],
    ['kernel', () => cakeScores({ kernel: 2 })],
    ['most', () => topScoreBudgets({ most: 0 })],
    ['window', () => topScoreBudgets({ window: -1 })],
  ])('%s', (option, make) => {
    expect(make).toThrow(new RegExp(`^\\w+: ${option} must be `));
  });
});

describe('scores on query rows, a window above the budget', () => {
  const at = {
    layers: 2,
    queryHeads: 4,
    kvHeads: 2,
    headDim: 1,
    step: 0,
    promptLength: 6,
    length: 6,
    slots: 6,
    aligned: true,
    budget: 2,
    selectRows: 2,
  };
  const layers = [0, 1].map((layer) => ({ at: { ...at, layer }, budgets: [2, 2], read: () => undefined }));
  const drafts = layers.map((layer, l) => ({
    ...emptyDraft(layer, cpu.ops),
    scores: cpu.ops.from({ data: Float32Array.from({ length: 24 }, (_, i) => ((i * 7 + l) % 5) + l), shape: [4, 6] }),
  }));
  test('budgets stay one a KV head and within the total', () => {
    const budgets = runSteps(compile(topScoreBudgets({ window: 4 })).steps, layers, cpu.ops, drafts).map((d) =>
      readCpu(d.budgets),
    );
    expect(budgets.map(({ shape }) => shape)).toEqual([
      [2, 1],
      [2, 1],
    ]);
    expect(budgets.flatMap(({ data }) => Array.from(data)).reduce((a, b) => a + b)).toBe(8);
  });
});
