import fc from 'fast-check';
import ndarray from 'ndarray';
import { describe, expect, test } from 'vitest';
import { cpu, readCpu } from '@kv/cpu';
import { compile, emptyDraft, traceOps } from '@kv/core/engine';
import type { Ops, Tensor } from '@kv/core';
import { each, kernelLaws } from '@kv/laws';
import { foldInto, merge, nearestKept } from '../src/index.ts';
import { mergeOracle } from './merge.oracle.ts';

const make = ({ rows, slots, lengths }: { rows: number; slots: number; lengths?: readonly number[] | undefined }) => ({
  inputs: {
    x: {
      data: Float32Array.from({ length: rows * slots * 2 }, (_, i) => Math.sin(i * 5)),
      shape: [rows, slots, 2],
      lengths,
    },
    stays: {
      data: Float32Array.from({ length: rows * slots }, (_, i) => Number(i % 3 === 1)),
      shape: [rows, slots],
      lengths,
    },
    values: {
      data: Float32Array.from({ length: rows * slots * 2 }, (_, i) => Math.cos(i * 5)),
      shape: [rows, slots, 2],
      lengths,
    },
    into: { data: Uint32Array.from({ length: rows * slots }, (_, i) => (i * 7) % 3), shape: [rows, slots], lengths },
    w: { data: Float32Array.from({ length: rows * slots }, (_, i) => (i % 4) / 4), shape: [rows, slots], lengths },
  },
  params: {},
});
describe.each([nearestKept, foldInto])('$id', (kernel) => {
  each(
    kernelLaws(kernel, {
      runs: 15,
      make: (s) => ({
        inputs: Object.fromEntries(Object.keys(kernel.inputs).map((k) => [k, make(s).inputs[k as 'x']])),
      }),
    }),
    test,
  );
});

/** Values that the hook leaves for one layer. */
function merged(
  ops: Ops,
  keys: Float32Array,
  values: Float32Array,
  kept: readonly (readonly number[])[],
  n: number,
  d: number,
  threshold: number,
): Tensor {
  const G = kept.length,
    at = {
      layer: 0,
      layers: 1,
      queryHeads: G,
      kvHeads: G,
      headDim: d,
      step: 0,
      promptLength: n,
      length: n,
      slots: n,
      aligned: true,
      budget: n,
      selectRows: G,
    };
  const layer = { at, budgets: kept.map(() => n), read: () => undefined },
    hook = compile(merge({ threshold })).hooks('compact')[0];
  const marks = ops.from({
    data: Float32Array.from(kept.flatMap((set) => Array.from({ length: n }, (_, i) => Number(set.includes(i))))),
    shape: [G, n],
  });
  const chosen = ops.select(marks, ops.from({ data: Float32Array.from(kept, (s) => s.length), shape: [G, 1] }));
  return hook.run({
    at,
    ops,
    draft: emptyDraft(layer, ops),
    kept: chosen,
    read: (s) => ops.from({ data: s.id === 'keys' ? keys : values, shape: [G, n, d] }) as never,
  }).values!;
}
const cases = fc.record({
  n: fc.integer({ min: 1, max: 8 }),
  d: fc.integer({ min: 2, max: 3 }),
  seed: fc.nat(999),
  threshold: fc.constantFrom(0, 0.3),
  kept: fc.array(fc.array(fc.nat(7), { maxLength: 5 }), { minLength: 1, maxLength: 2 }),
});

test('agrees with the oracle, and records only', () => {
  fc.assert(
    fc.property(cases, ({ n, d, seed, threshold, ...c }) => {
      const kept = c.kept.map((set) => [...new Set(set.filter((i) => i < n))].sort((a, b) => a - b)),
        G = kept.length,
        of = (k: number): Float32Array =>
          Float32Array.from({ length: G * n * d }, (_, i) => Math.sin((i + 1) * k + seed));
      const keys = of(1.7),
        values = of(2.9),
        rows = (x: Float32Array, g: number) =>
          Array.from({ length: n }, (_, i) =>
            ndarray(Float64Array.from(x.subarray((g * n + i) * d, (g * n + i + 1) * d)), [d]),
          );
      const got = readCpu(merged(cpu.ops, keys, values, kept, n, d, threshold)).data,
        trace = traceOps(cpu);
      kept.forEach((set, g) =>
        mergeOracle(rows(keys, g), rows(values, g), set, threshold).forEach((v, i) => {
          if (set.includes(i))
            v.data.forEach((x, j) => expect(Math.abs(got[(g * n + i) * d + j] - x)).toBeLessThan(1e-5));
        }),
      );
      expect(Array.from(readCpu(trace.reveal(merged(trace.ops, keys, values, kept, n, d, threshold))).data)).toEqual(
        Array.from(got),
      );
    }),
    { numRuns: 60 },
  );
});
test('a threshold that is no cosine is an error', () => {
  expect(() => merge({ threshold: 2 })).toThrow('merge: threshold must be a cosine from -1 to 1, got 2');
});
