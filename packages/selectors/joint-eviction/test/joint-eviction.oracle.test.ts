import fc from 'fast-check';
import { expect, test } from 'vitest';
import { compose, scoreTransform } from '@kv/core';
import { apply, cpu, readCpu } from '@kv/cpu';
import { plainProducts } from '@kv/cpu/engine';
import type { Tensor } from '@kv/core';
import { evictionOrder, jointError, jointEviction } from '../src/index.ts';
import { bestSet, greedyOracle, movedOutput } from './joint-eviction.oracle.ts';

const noise =
  (seed: number) =>
  (i: number): number => {
    const x = Math.sin(seed * 12.9898 + i * 78.233) * 43758.5453;
    return Math.fround(x - Math.floor(x));
  };
const cases = fc.record({
  n: fc.oneof(fc.integer({ min: 2, max: 9 }), fc.constantFrom(16, 20)),
  d: fc.integer({ min: 1, max: 4 }),
  kvHeads: fc.integer({ min: 1, max: 2 }),
  group: fc.integer({ min: 1, max: 3 }),
  seed: fc.integer({ min: 1, max: 9999 }),
  budget: fc.integer({ min: 1, max: 9 }),
  forced: fc.nat(2),
  banned: fc.nat(2),
});
/** Weights `[head][slot]` of at least 0.05 and values `[KV head][slot][channel]`. */
function given({ n, d, kvHeads, group, seed }: { n: number; d: number; kvHeads: number; group: number; seed: number }) {
  const weights = Array.from({ length: kvHeads * group }, (_, h) =>
    Array.from({ length: n }, (_i, i) => Math.fround(noise(seed)(h * n + i) + 0.05)),
  );
  const values = Array.from({ length: kvHeads }, (_, g) =>
    Array.from({ length: n }, (_i, i) =>
      Array.from({ length: d }, (_c, c) => Math.fround(noise(seed + 1)((g * n + i) * d + c) * 4 - 2)),
    ),
  );
  return {
    weights,
    values,
    inputs: {
      scores: weights,
      values: { data: Float32Array.from(values.flat(2)), shape: [kvHeads, n, d] },
      at: { kvHeads, queryHeads: kvHeads * group },
    },
  };
}

test('the joint error of any set is the distance that the output moves, by brute force', () => {
  fc.assert(
    fc.property(cases, fc.nat(510), (c, bits) => {
      const { weights, values, inputs } = given(c),
        slots = Array.from({ length: c.n }, (_, i) => i),
        kept = slots.filter((i) => i === bits % c.n || (bits >> i) % 2 === 1);
      const evicted = cpu.ops.from({
        data: Float32Array.from(slots, (i) => Number(!kept.includes(i))),
        shape: [1, c.n],
      });
      const got = readCpu(
        jointError(
          cpu.ops,
          cpu.ops.from({ data: Float32Array.from(weights.flat()), shape: [weights.length, c.n] }),
          cpu.ops.from(inputs.values),
          evicted,
        ),
      ).data;
      weights.forEach((row, h) =>
        expect(Math.abs(got[h] - movedOutput(row, values[Math.floor(h / c.group)], kept))).toBeLessThan(1e-4),
      );
    }),
    { numRuns: 60 },
  );
});

test('a learned sink is one more slot of value 0 that never leaves', () => {
  fc.assert(
    fc.property(cases, fc.constantFrom(0.01, 1, 30), (c, sink) => {
      const { weights, values, inputs } = given(c),
        parts = weights.map((row) => {
          const whole = row.reduce((sum, w) => sum + w, sink);
          return row.map((w) => w / whole);
        }),
        rest = (row: readonly number[]): number => 1 - row.reduce((sum, w) => sum + w, 0),
        last = scoreTransform('last', {}, ({ ops, scores }) => ({ scores, forced: ops.lastSlots(scores, 1) }))();
      const got = apply(jointEviction(), {
        ...inputs,
        scores: parts,
        at: { ...inputs.at, learnedSinks: new Float32Array(parts.length) },
        budget: c.budget,
      });
      const want = apply(compose(last, jointEviction()), {
        scores: parts.map((row) => [...row, rest(row)]),
        values: {
          data: Float32Array.from(values.map((head) => [...head, new Array<number>(c.d).fill(0)]).flat(2)),
          shape: [c.kvHeads, c.n + 1, c.d],
        },
        at: inputs.at,
        budget: Math.min(c.budget, c.n) + 1,
      });
      expect(got.kept).toEqual(want.kept.map((slots) => slots.filter((slot) => slot < c.n)));
    }),
    { numRuns: 60 },
  );
});

test('agrees with the greedy float64 oracle that recomputes every output, under masks and GQA', () => {
  fc.assert(
    fc.property(cases, (c) => {
      const { weights, values, inputs } = given(c),
        order = Array.from({ length: c.n }, (_, i) => i).sort((a, b) => noise(c.seed + 2)(a) - noise(c.seed + 2)(b));
      const must = order.slice(0, Math.min(c.forced, c.n - 1)),
        not = order.slice(must.length, Math.min(must.length + c.banned, c.n - 1)),
        budget = Math.max(c.budget, must.length);
      const mask = (set: readonly number[]): Float32Array =>
        Float32Array.from(order, (_, i) => Number(set.includes(i)));
      const masks = scoreTransform('masks', {}, ({ ops, scores }) => ({
        scores,
        forced: ops.from({ data: mask(must), shape: [1, c.n] }),
        banned: ops.from({ data: mask(not), shape: [1, c.n] }),
      }))();
      const { kept } = apply(compose(masks, jointEviction()), { ...inputs, budget });
      const want = values.map((v, g) =>
        greedyOracle(weights.slice(g * c.group, (g + 1) * c.group), v, Math.min(budget, c.n), must, not),
      );
      if (budget < c.n) expect(kept).toEqual(want);
    }),
    { numRuns: 60 },
  );
});

test('of one slot it is the best there is, and of more it is seldom far from it', () => {
  let best = 0,
    greedy = 0;
  for (let seed = 1; seed <= 15; seed++) {
    const {
      weights: [row = []],
      values: [v = []],
      inputs,
    } = given({ n: 8, d: 3, kvHeads: 1, group: 1, seed });
    expect(apply(jointEviction(), { ...inputs, budget: 7 }).kept![0]).toEqual(bestSet(row, v, 7));
    best += movedOutput(row, v, bestSet(row, v, 4));
    greedy += movedOutput(row, v, [...apply(jointEviction(), { ...inputs, budget: 4 }).kept![0]]);
  }
  expect(greedy / best).toBeGreaterThanOrEqual(1);
  expect(greedy / best).toBeLessThan(3);
});

test('two alike do not leave together where CAOTE, which asks for each alone, would drop both; a slot with all the mass leaves last', () => {
  const values = { data: Float32Array.of(4, 4, -4, -4), shape: [1, 4, 1] };
  // 0.3 * 3.2 / 0.7 > 0.2 * 4.8 / 0.8
  expect(apply(jointEviction(), { scores: [[0.3, 0.3, 0.2, 0.2]], values, budget: 2 }).kept).toEqual([[0, 2]]);
  expect(
    apply(jointEviction(), {
      scores: [[0, 1, 0]],
      values: { data: Float32Array.of(1, 2, 3), shape: [1, 3, 1] },
      budget: 1,
    }).kept,
  ).toEqual([[1]]);
});

test('plain loops and what the host has instead agree on any number of slots, channels and heads', () => {
  for (const [n, d, heads, valid] of [
    [1, 1, 1, 1],
    [40, 64, 3, 40],
    [61, 5, 2, 50],
    [150, 20, 4, 150],
  ] as const) {
    const random = (length: number, by: number): Float32Array =>
        Float32Array.from({ length }, (_, i) => noise(n + by)(i) * by),
      inputs = {
        weights: { data: random(heads * n, 1.9 / n), shape: [heads, n] },
        outputs: { data: random(heads * d, 2), shape: [heads, d] },
        values: { data: random(n * d, 4), shape: [1, n, d] },
        mask: { data: Float32Array.from({ length: n }, (_, i) => [-1, 1][i % 9] ?? 0), shape: [1, n] },
        budgets: { data: Float32Array.of(2), shape: [1, 1] },
      },
      out = new Float32Array(n + heads * (d + 1)),
      lengths = Uint32Array.of(valid),
      { from, kernel } = cpu.ops;
    evictionOrder.ref(inputs, {}, out, lengths, plainProducts);
    const { weights, outputs, values, mask, budgets } = inputs,
      ragged = from(mask, 'f32', from({ data: lengths, shape: [1] })),
      [w, o, v, b] = [weights, outputs, values, budgets].map((x) => from(x)) as [Tensor, Tensor, Tensor, Tensor],
      got = readCpu(kernel(evictionOrder, { weights: w, outputs: o, values: v, mask: ragged, budgets: b })).data;
    expect(got.subarray(0, n)).toEqual(out.subarray(0, n));
    got.forEach((y, i) => expect(y).toBeCloseTo(out[i], 4));
  }
});
