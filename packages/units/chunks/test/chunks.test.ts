import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { cpu, readCpu } from '@kv/cpu';
import { compile, emptyDraft, runSteps } from '@kv/core/engine';
import { each, scene, sceneSpecs, unitLaws } from '@kv/laws';
import { chunks } from '../src/index.ts';
import { chunksOracle } from './chunks.oracle.ts';

describe.each(
  [chunks({ size: 3 }), chunks({ size: 1 }), chunks({ size: 4, shared: false })].map(
    (piece) => [piece.label, piece] as const,
  ),
)('%s', (_, piece) => {
  each(unitLaws(piece, { runs: 50 }), test);
});

test('chunk scores and places agree with the oracle, with gaps in the positions', () => {
  fc.assert(
    fc.property(sceneSpecs({ layers: 1, ragged: false }), fc.integer({ min: 1, max: 5 }), (spec, size) => {
      const { at, attention, positions } = scene(spec).layers[0],
        { ops } = cpu;
      const read = (): unknown => ops.from({ data: positions, shape: [at.kvHeads, at.slots] }),
        layer = { at, read, budgets: [] };
      const { units, unitScores } = runSteps(compile(chunks({ size })).steps, [layer], ops, [
        { ...emptyDraft(layer, ops), scores: ops.from({ data: attention, shape: [at.queryHeads, at.slots] }) },
      ])[0];
      const row = (data: ArrayLike<number>, r: number): number[] =>
        Array.from({ length: at.slots }, (_, i) => data[r * at.slots + i]);
      const placed = Array.from({ length: at.kvHeads }, (_, g) => row(positions, g)),
        group = at.queryHeads / at.kvHeads;
      const kv = placed.map((_, g) =>
        row(attention, g * group).map(
          (_, i) =>
            Array.from({ length: group }, (_, r) => attention[(g * group + r) * at.slots + i]).reduce((a, b) => a + b) /
            group,
        ),
      );
      expect(units!.count).toBe(Math.ceil(at.length / size));
      placed.forEach((p, g) => expect(row(readCpu(units!.of).data, g)).toEqual(p.map((x) => Math.floor(x / size))));
      chunksOracle(kv, placed, size, at.length).forEach((want, u) =>
        expect(readCpu(unitScores!).data[u]).toBeCloseTo(want, 5),
      );
    }),
    { numRuns: 50 },
  );
});

test('a size that is no positive whole number is an error', () => {
  expect(() => chunks({ size: 0 })).toThrow('chunks: size must be a positive whole number of positions, got 0');
});
