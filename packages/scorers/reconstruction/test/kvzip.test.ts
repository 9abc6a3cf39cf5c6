import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { compose, selector } from '@kv/core';
import { apply } from '@kv/cpu';
import { each, scene, sceneSpecs, scorerLaws } from '@kv/laws';
import { kvzip, reconstruction, reconstructionOverHidden } from '../src/index.ts';
import { kvzipOracle, kvzipPlusOracle } from './kvzip.oracle.ts';
import { largestWeights } from './largest-weights.ts';

describe('kvzip', () => {
  each(scorerLaws(kvzip({ sinks: 2 }), { signals: largestWeights(reconstruction), runs: 60 }), test);
});

describe('kvzip, plus', () => {
  each(
    scorerLaws(kvzip({ sinks: 2, plus: true }), { signals: largestWeights(reconstructionOverHidden), runs: 60 }),
    test,
  );
});
test('plus agrees with the oracle over whole rows, W_O and hidden states', () => {
  const number = fc.integer({ min: -8, max: 8 }).map((x) => x / 4),
    positive = fc.integer({ min: 1, max: 16 }).map((x) => x / 16),
    list = <T>(of: fc.Arbitrary<T>, n: number): fc.Arbitrary<T[]> => fc.array(of, { minLength: n, maxLength: n });
  const cases = fc
    .record({
      group: fc.integer({ min: 1, max: 3 }),
      queries: fc.integer({ min: 1, max: 4 }),
      n: fc.integer({ min: 1, max: 6 }),
    })
    .chain(({ group, queries, n }) =>
      fc.record({
        weights: list(list(list(positive, n), queries), group),
        hidden: list(positive, queries),
        columns: list(list(list(number, 2), 3), group),
        values: list(list(number, 2), n),
      }),
    );
  fc.assert(
    fc.property(cases, ({ weights, hidden, columns, values }) => {
      const { data } = apply(kvzip({ sinks: 0, plus: true }), {
        // what an engine gives: the largest of each head over its queries, and |v W_O|_2
        attention: weights.map((rows) => values.map((_, i) => Math.max(...rows.map((row, q) => row[i] / hidden[q])))),
        outputNorms: columns.map((of) =>
          values.map((v) => Math.sqrt(of.reduce((sum, row) => sum + (row[0] * v[0] + row[1] * v[1]) ** 2, 0))),
        ),
        at: { kvHeads: 1, queryHeads: weights.length },
      }).scores!;
      kvzipPlusOracle(weights, hidden, columns, values).forEach((x, i) =>
        expect(Math.abs(data[i] - x)).toBeLessThanOrEqual(1e-5 * Math.max(1, x)),
      );
    }),
    { numRuns: 100 },
  );
});

test('agrees with the oracle: the maximum over the group; sinks stay', () => {
  fc.assert(
    fc.property(sceneSpecs({ layers: 1, ragged: false }), fc.nat(3), (spec, sinks) => {
      const { at, attention, positions } = scene(spec).layers[0],
        group = at.queryHeads / at.kvHeads;
      const rows = Array.from({ length: at.queryHeads }, (_, h) =>
          Array.from(attention.subarray(h * at.slots, (h + 1) * at.slots)),
        ),
        placed = Array.from({ length: at.kvHeads }, (_, g) =>
          Array.from(positions.subarray(g * at.slots, (g + 1) * at.slots)),
        );
      const got = apply(kvzip({ sinks }), { attention: rows, positions: placed }).scores!.data;
      placed.forEach((_, g) =>
        kvzipOracle(rows.slice(g * group, (g + 1) * group)).forEach((x, i) =>
          expect(got[g * at.slots + i]).toBe(Math.fround(x)),
        ),
      );
    }),
    { numRuns: 60 },
  );
  const topK = selector('topK', {}, ({ ops, scores, budgets, ...masks }) => ops.select(scores, budgets, masks));
  expect(apply(compose(kvzip({ sinks: 2 }), topK()), { attention: [[0, 0.1, 0.2, 0.9, 0.8]], budget: 3 }).kept).toEqual(
    [[0, 1, 3]],
  );
});

test.each([
  [reconstruction, undefined],
  [reconstructionOverHidden, 'hidden'],
] as const)('the provider asks for one pass: the instruction, then the context (%#)', async (signal, over) => {
  const asked: number[][] = [];
  await signal.provide!(
    {
      ids: [7, 8],
      promptLength: 2,
      encode: (text) => Array.from(text, (c) => c.charCodeAt(0)),
      decode: () => '',
      observeMax: async (ids, _, by) => {
        expect(by).toBe(over);
        asked.push([...ids]);
        return { shape: [1, 2], dtype: 'f32' };
      },
      queriesOf: () => Promise.reject(new Error('not asked for')),
      attentionRows: async () => {},
      hiddenNumbers: async () => new Float32Array(),
      artifact: async () => undefined,
    },
    0,
  );
  expect(asked).toHaveLength(1);
  expect(String.fromCharCode(...asked[0].slice(0, -2))).toBe('\n\nRepeat the previous context exactly.\n');
  expect(asked[0].slice(-2)).toEqual([7, 8]);
});
test('sinks that are no whole number are an error', () => {
  expect(() => kvzip({ sinks: -1 })).toThrow('kvzip: sinks must be a whole number of positions of at least 0, got -1');
});
