import fc from 'fast-check';
import ndarray from 'ndarray';
import { describe, expect, test } from 'vitest';
import { cpu, readCpu } from '@kv/cpu';
import { plainProducts } from '@kv/cpu/engine';
import { compile, emptyDraft, isState, traceOps } from '@kv/core/engine';
import { uniformHash } from '@kv/core/shared';
import type { Ops, Signal, Tensor } from '@kv/core';
import { each, kernelLaws } from '@kv/laws';
import { cam, foldAhead, shareAhead } from '../src/index.ts';
import { camOracle } from './cam.oracle.ts';

const make = ({ rows, slots, lengths }: { rows: number; slots: number; lengths?: readonly number[] | undefined }) => {
  const row = (of: (i: number) => number) => ({
    data: Float32Array.from({ length: rows * slots }, (_, i) => of(i)),
    shape: [rows, slots],
    lengths,
  });
  return {
    received: row((i) => Math.abs(Math.sin(i * 3))),
    stays: row((i) => Number(i % 3 === 1)),
    merges: row((i) => Number(i % 3 === 0)),
    coin: row((i) => (i % 5) / 5),
    share: row((i) => Number(i % 3 === 0) / 2),
    values: {
      data: Float32Array.from({ length: rows * slots * 2 }, (_, i) => Math.cos(i * 5)),
      shape: [rows, slots, 2],
      lengths,
    },
  };
};
describe.each([shareAhead, foldAhead])('$id', (kernel) => {
  each(
    kernelLaws(kernel, {
      runs: 15,
      make: (s) => ({
        inputs: Object.fromEntries(Object.keys(kernel.inputs).map((k) => [k, make(s)[k as 'coin']])),
        params: { slots: 2 },
      }),
    }),
    test,
  );
});

interface Case {
  readonly G: number;
  readonly n: number;
  readonly d: number;
  readonly seed: number;
  readonly slots: number;
  readonly most: number;
  readonly kept: readonly (readonly number[])[];
}
const noise =
  (seed: number) =>
  (i: number): number => {
    const x = Math.sin(seed * 12.9898 + i * 78.233) * 43758.5453;
    return Math.fround(x - Math.floor(x));
  };
/** A head in five received nothing. */
const received = ({ G, n, seed }: Case): Float32Array =>
  Float32Array.from({ length: G * n }, (_, i) => (Math.floor(i / n + seed) % 5 === 0 ? 0 : noise(seed + 1)(i)));
const scores = ({ G, n, seed }: Case): Float32Array =>
  Float32Array.from({ length: G * n }, (_, i) => Math.floor(noise(seed + 2)(i) * 6));
const values = ({ G, n, d, seed }: Case): Float32Array =>
  Float32Array.from({ length: G * n * d }, (_, i) => noise(seed + 3)(i) * 4 - 2);
const positionsOf = ({ G, n }: Case): Uint32Array => Uint32Array.from({ length: G * n }, (_, i) => (i % n) * 3 + 1);
/** Values that the hook leaves for one layer, number 2. */
function folded(ops: Ops, c: Case): Tensor {
  const { G, n, d, slots, most, seed } = c,
    at = {
      layer: 2,
      layers: 3,
      queryHeads: G,
      kvHeads: G,
      headDim: d,
      step: 4,
      promptLength: n,
      length: 3 * n,
      slots: n,
      aligned: true,
      budget: n,
      selectRows: G,
    };
  const hook = compile(cam({ slots, most, seed })).hooks('compact')[0],
    layer = { at, budgets: c.kept.map(() => n), read: () => undefined };
  const marks = ops.from({
    data: Float32Array.from(c.kept.flatMap((set) => Array.from({ length: n }, (_, i) => Number(set.includes(i))))),
    shape: [G, n],
  });
  const kept = ops.select(marks, ops.from({ data: Float32Array.from(c.kept, (s) => s.length), shape: [G, 1] }));
  const read = (s: Signal<string, any>): unknown =>
    isState(s)
      ? ops.from({ data: received(c), shape: [G, n] })
      : s.id === 'positions'
        ? ops.from({ data: positionsOf(c), shape: [G, n] }, 'u32')
        : ops.from({ data: values(c), shape: [G, n, d] });
  return hook.run({
    at,
    ops,
    draft: { ...emptyDraft(layer, ops), scores: ops.from({ data: scores(c), shape: [G, n] }) },
    kept,
    read: read as never,
  }).values!;
}
const cases: fc.Arbitrary<Case> = fc
  .record({
    n: fc.integer({ min: 1, max: 10 }),
    d: fc.integer({ min: 1, max: 3 }),
    seed: fc.nat(999),
    slots: fc.integer({ min: 1, max: 4 }),
    most: fc.nat(6),
    sets: fc.array(fc.array(fc.nat(9), { maxLength: 7 }), { minLength: 1, maxLength: 3 }),
  })
  .map(({ sets, ...c }) => ({
    ...c,
    G: sets.length,
    kept: sets.map((set) => [...new Set(set.filter((i) => i < c.n))].sort((a, b) => a - b)),
  }));

test('agrees with the oracle, and records only', () => {
  let moved = 0;
  fc.assert(
    fc.property(cases, (c) => {
      const { G, n, d, seed, kept } = c,
        got = readCpu(folded(cpu.ops, c)).data,
        trace = traceOps(cpu),
        row = (x: Float32Array, g: number): number[] => Array.from(x.subarray(g * n, (g + 1) * n));
      const coins = new Float32Array(G * n);
      uniformHash.ref(
        { positions: { data: positionsOf(c), shape: [G, n] } },
        { seed, layer: 2 },
        coins,
        Uint32Array.from({ length: G }, () => n),
        plainProducts,
      );
      kept.forEach((set, g) => {
        const own = Array.from({ length: n }, (_, i) =>
          ndarray(Float64Array.from(values(c).subarray((g * n + i) * d, (g * n + i + 1) * d)), [d]),
        );
        camOracle(own, row(received(c), g), row(scores(c), g), row(coins, g), set, c).forEach((v, i) =>
          v.data.forEach((x, j) => {
            expect(Math.abs(got[(g * n + i) * d + j] - x)).toBeLessThan(1e-5);
            moved += Number(set.includes(i) && x !== own[i].data[j]);
          }),
        );
      });
      expect(Array.from(readCpu(trace.reveal(folded(trace.ops, c))).data)).toEqual(Array.from(got));
    }),
    { numRuns: 200 },
  );
  expect(moved).toBeGreaterThan(50);
});
test('attention of generated tokens adds up, a head group at a time', () => {
  const { ops } = cpu,
    hook = compile(cam()).hooks('step')[0],
    at = {
      layer: 0,
      layers: 1,
      queryHeads: 4,
      kvHeads: 2,
      headDim: 1,
      step: 1,
      promptLength: 1,
      length: 2,
      slots: 2,
      aligned: true,
      budget: 2,
      selectRows: 2,
    };
  const read = (s: Signal<string, any>): unknown =>
    isState(s)
      ? ops.from({ data: Float32Array.of(1, 2, 3, 4), shape: [2, 2] })
      : ops.from({ data: Float32Array.of(0.5, 0.5, 1, 0, 0, 1, 0.5, 0.5), shape: [4, 2] });
  const [state] = hook.run([
    {
      at,
      ops,
      draft: { budgets: ops.from({ data: [0], shape: [1, 1] }), state: new Map(), checks: [] },
      read: read as never,
    },
  ]);
  expect(Array.from(readCpu([...state.values()][0]).data)).toEqual([1.75, 2.25, 3.25, 4.75]);
});
test.each([
  [() => cam({ slots: 0 }), 'cam: slots must be a positive whole number of slots, got 0'],
  [() => cam({ most: 0.5 }), 'cam: most must be a whole number of slots of at least 0, got 0.5'],
  [() => cam({ seed: 2 ** 32 }), 'cam: seed must be a whole number below 2^32, got 4294967296'],
])('%s is refused', (wrong, sentence) => {
  expect(wrong).toThrow(sentence);
});
