import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { apply } from '@kv/core';
import { each, scene, sceneSpecs, scorerLaws } from '@kv/laws';
import { kvzip, reconstruction } from '../src/index.ts';
import { kvzipOracle } from './kvzip.oracle.ts';
import { largestWeights } from './largest-weights.ts';

describe('kvzip', () => {
  each(scorerLaws(kvzip({ sinks: 2 }), { signals: largestWeights(reconstruction), runs: 60 }), test);
});

test('agrees with the oracle: the maximum over the group', () => {
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
      placed.forEach((p, g) =>
        kvzipOracle(rows.slice(g * group, (g + 1) * group), p, sinks).forEach((x, i) =>
          expect(got[g * at.slots + i]).toBe(Math.fround(x)),
        ),
      );
    }),
    { numRuns: 60 },
  );
});

test('the provider asks for one pass: the instruction, then the context', async () => {
  const asked: number[][] = [];
  await reconstruction.provide!(
    {
      ids: [7, 8],
      promptLength: 2,
      encode: (text) => Array.from(text, (c) => c.charCodeAt(0)),
      decode: () => '',
      observeMax: async (ids) => {
        asked.push([...ids]);
        return { shape: [1, 2], dtype: 'f32' };
      },
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
