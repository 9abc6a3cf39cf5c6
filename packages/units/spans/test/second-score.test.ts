import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { compose, keys, KvError, max, scorer, unit, weighted } from '@kv/core';
import type { AnyScorer, Piece } from '@kv/core';
import { compile, emptyDraft, runSteps } from '@kv/core/engine';
import { cpu, readCpu } from '@kv/cpu';
import { each, scene, sceneSpecs, unitLaws } from '@kv/laws';
import type { SceneSpec } from '@kv/laws';
import { secondScore, spans } from '../src/index.ts';
import { spanScores } from './spans.oracle.ts';

/** Scores of every slot that differ by head and place, one row a KV head. */
const scoring = (name: string, f: (i: number) => number): AnyScorer =>
  scorer(name, { needs: [keys] }, ({ ops, at }) =>
    ops.from({
      data: Float32Array.from({ length: at.kvHeads * at.slots }, (_, i) => f(i)),
      shape: [at.kvHeads, at.slots],
    }),
  )();
const waves = (i: number): number => 3 * Math.sin(i * 1.3),
  steps = (i: number): number => ((i * 7) % 5) - 2;
const first = scoring('first', waves),
  second = scoring('second', steps);

describe.each(
  [
    compose(spans({ at: '2 5' }), secondScore(second)),
    compose(spans({ at: '3', shared: true }), secondScore(second, { join: 'sum', weight: -2, score: 'max' })),
  ].map((piece) => [piece.label, piece] as const),
)('%s', (_, piece) => {
  each(unitLaws(piece, { runs: 40 }), test);
});

/** Unit scores of an aligned cache of one layer, `[G][units]`. */
function scoresOf(piece: Piece<'start', 'units'>, spec: SceneSpec): number[][] {
  const { ops } = cpu,
    { at, keys: data, positions } = scene(spec).layers[0],
    tensors = {
      keys: ops.from({ data, shape: [at.kvHeads, at.slots, at.headDim] }),
      positions: ops.from({ data: positions, shape: [at.kvHeads, at.slots] }),
    },
    layer = {
      at,
      budgets: new Array<number>(at.kvHeads).fill(1),
      read: ({ id }: { readonly id: string }) => tensors[id as 'keys'],
    };
  const [{ unitScores }] = runSteps(compile(piece).steps, [layer], ops, [emptyDraft(layer, ops)]),
    { data: got, shape } = readCpu(unitScores!);
  return Array.from({ length: shape[0] }, (_, r) => [...got.subarray(r * shape[1], (r + 1) * shape[1])]);
}
const specs = sceneSpecs({ ragged: false, layers: 1 }),
  place = spans({ at: '2 5' });
test('the larger and the weighted sum agree with the oracle', () =>
  fc.assert(
    fc.property(
      specs,
      fc.integer({ min: -3, max: 3 }),
      fc.constantFrom('mean', 'max', 'sum'),
      (spec, weight, score) => {
        const { at, positions } = scene(spec).layers[0],
          n = at.slots,
          [larger, total] = (['max', 'sum'] as const).map((join) =>
            scoresOf(compose(first, place, secondScore(second, { join, weight, score })), spec),
          );
        for (let g = 0; g < at.kvHeads; g++) {
          const of = [...positions.subarray(g * n, (g + 1) * n)].map((p) => (p < 2 ? 0 : p < 5 ? 1 : 2)),
            row = (f: (i: number) => number): number[] => of.map((_, i) => Math.fround(f(g * n + i))),
            a = spanScores(row(waves), of, larger[g].length, 'mean'),
            b = spanScores(row(steps), of, larger[g].length, score);
          a.forEach((x, u) => {
            expect(larger[g][u]).toBeCloseTo(Math.max(x, weight * b[u]), 4);
            expect(total[g][u]).toBeCloseTo(x + weight * b[u], 4);
          });
        }
      },
    ),
    { numRuns: 60 },
  ));
const near = (a: readonly (readonly number[])[], b: readonly (readonly number[])[]): boolean =>
  a.length === b.length && a.every((row, g) => row.every((x, u) => Math.abs(x - b[g][u]) < 1e-4));
/** Whether two ways of scoring units agree on every cache. */
const agree = (a: Piece<'start', 'units'>, b: Piece<'start', 'units'>): boolean => {
  let holds = true;
  fc.assert(
    fc.property(specs, (spec) => {
      holds &&= near(scoresOf(a, spec), scoresOf(b, spec));
    }),
    { numRuns: 40 },
  );
  return holds;
};
test('a sum of means is the mean of the weighted sum; the larger mean is not the mean of the larger', () => {
  const join = (how: 'max' | 'sum', weight = 1) => compose(first, place, secondScore(second, { join: how, weight }));
  expect(agree(join('sum', 2), compose(weighted([1, first], [2, second]), place))).toBe(true);
  expect(agree(join('max'), compose(max(first, second), place))).toBe(false);
  expect(agree(join('sum', 0), compose(first, place))).toBe(true);
  expect(agree(compose(first, place, secondScore(first)), compose(first, place))).toBe(true);
});
test('what the second scorer forces does not count, and something that is no scorer is refused', () => {
  const forcing = scorer('forcing', { needs: [keys], minSlots: () => 1 }, ({ ops, keys: k }) => ({
    scores: ops.norm(k),
    forced: ops.lastSlots(ops.norm(k), 1),
  }))();
  const layer = {
      at: scene({
        ...{ layers: 1, kvHeads: 1, group: 1, slots: 3, dim: 1, ragged: false, evicted: 0 },
        budget: 1,
        weights: 'ties',
        vectors: 'same',
        seed: 1,
      }).layers[0].at,
      budgets: [1],
      read: ({ id }: { readonly id: string }) =>
        cpu.ops.from(
          id === 'positions'
            ? { data: Uint32Array.of(0, 1, 2), shape: [1, 3] }
            : { data: new Float32Array(3), shape: [1, 3, 1] },
        ),
    },
    [{ forced }] = runSteps(compile(compose(first, place, secondScore(forcing))).steps, [layer], cpu.ops, [
      emptyDraft(layer, cpu.ops),
    ]);
  expect(forced).toBeUndefined();
  expect(compile(secondScore(forcing)).minSlots(8, 8)).toBe(0);
  const notOne = unit('halves', {}, ({ ops, scores }) => ({ units: { of: ops.mul(scores, 0), count: 1 }, scores }))();
  expect(() => secondScore(notOne as never)).toThrow(
    new KvError('secondScore', "takes scorers, but 'halves' leaves units"),
  );
});
