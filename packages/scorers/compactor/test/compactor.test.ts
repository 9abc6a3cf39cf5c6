import fc from 'fast-check';
import ndarray from 'ndarray';
import { describe, expect, test } from 'vitest';
import { apply } from '@kv/cpu';
import { each, kernelLaws, scene, sceneSpecs, scorerLaws, transformLaws } from '@kv/laws';
import { byEviction, chunkMass, fromChunks, leverage, noncausalAttention, regular } from '../src/index.ts';
import { leverageOracle, massOracle, size } from './compactor.oracle.ts';

describe('leverage', () => {
  each(scorerLaws(leverage({ jitter: 0.5 }), { runs: 40, tolerance: 1e-4 }), test);
});
describe('noncausalAttention', () => {
  each(scorerLaws(noncausalAttention({ chunk: 4, window: 16 }), { runs: 40 }), test);
});
describe('byEviction', () => {
  each(transformLaws(byEviction(), { runs: 30 }), test);
});
const make = ({ rows, slots, lengths }: { rows: number; slots: number; lengths?: readonly number[] | undefined }) => ({
  inputs: {
    queries: {
      data: Float32Array.from({ length: 2 * rows * slots * 2 }, (_, i) => Math.sin(i)),
      shape: [2 * rows, slots, 2],
    },
    keys: { data: Float32Array.from({ length: rows * slots * 2 }, (_, i) => Math.cos(i * 2)), shape: [rows, slots, 2] },
    positions: {
      data: Uint32Array.from({ length: rows * slots }, (_, i) => (i % Math.max(1, slots)) * 2),
      shape: [rows, slots],
      lengths,
    },
    rows: { data: Float32Array.from({ length: 2 * rows * 10 }, (_, i) => i), shape: [2 * rows, 10] },
  },
  params: { chunk: 5 },
});
describe.each([chunkMass, fromChunks])('$id', (kernel) => {
  each(
    kernelLaws(kernel, {
      runs: 15,
      make: (s) => {
        const { inputs, params } = make(s);
        return {
          inputs: Object.fromEntries(Object.keys(kernel.inputs).map((k) => [k, inputs[k as keyof typeof inputs]])),
          params,
        };
      },
    }),
    test,
  );
});
describe('regular', () => {
  each(
    kernelLaws(regular, {
      runs: 15,
      make: ({ rows: r, slots: d }) => ({
        inputs: {
          m: { data: Float32Array.from({ length: r * d * d }, (_, i) => 1 + (i % 7) * 1e6), shape: [r, d, d] },
        },
        params: { jitter: 0.5 },
      }),
    }),
    test,
  );
});

const rows = (x: Float32Array, r: number, m: number, d: number) =>
  Array.from({ length: m }, (_, i) =>
    ndarray(Float64Array.from(x.subarray((r * m + i) * d, (r * m + i + 1) * d)), [d]),
  );
const still = { rotary: 0, angles: () => ({ cos: new Float32Array(0), sin: new Float32Array(0) }) };

test('leverage agrees with least squares solved by conjugate gradients', () => {
  fc.assert(
    fc.property(
      sceneSpecs({ layers: 1, ragged: false }).filter((s) => s.vectors !== 'long'),
      (spec) => {
        const { at, keys } = scene(spec).layers[0],
          { kvHeads: G, slots: n, headDim: d } = at;
        const got = apply(leverage({ jitter: 0.5 }), {
          keys: { data: keys, shape: [G, n, d] },
          rope: still,
          at: { headDim: d },
        }).scores!.data;
        for (let g = 0; g < G; g++)
          leverageOracle(rows(keys, g, n, d), 0.5).forEach((x, i) =>
            expect(Math.abs(got[g * n + i] - x)).toBeLessThan(1e-4),
          );
      },
    ),
    { numRuns: 50 },
  );
});

test('leverage of keys of any size, few or alike, is that of the raised jitter, from 0 to 1', () => {
  fc.assert(
    fc.property(
      fc.record({
        n: fc.integer({ min: 1, max: 60 }),
        d: fc.constantFrom(8, 64, 128),
        sd: fc.constantFrom(1e-3, 1, 30, 1e3),
        common: fc.constantFrom(0, 100),
        jitter: fc.constantFrom(1e-5, 0.01),
        seed: fc.nat(),
      }),
      ({ n, d, sd, common, jitter, seed }) => {
        const noise = (i: number): number => {
          const x = Math.sin(i * 12.9898 + (seed % 1000)) * 43758.5453;
          return 2 * (x - Math.floor(x)) - 1;
        };
        const data = Float32Array.from(
          { length: n * d },
          (_, i) => sd * (noise(i) + common * noise(i % d) * noise(-1 - Math.floor(i / d))),
        );
        const got = apply(leverage({ jitter }), {
          keys: { data, shape: [1, n, d] },
          rope: still,
          at: { headDim: d },
        }).scores!.data;
        for (const x of got) expect(x >= 0 && x <= 1).toBe(true);
        if (common > 0) return; // the oracle's own steps do not end there
        const keys = rows(data, 0, n, d),
          means = Float64Array.from({ length: d }, (_, a) => keys.reduce((sum, k) => sum + k.get(a), 0) / n),
          trace = keys.reduce((sum, k) => sum + means.reduce((s, mean, a) => s + (k.get(a) - mean) ** 2, 0), 0);
        leverageOracle(keys, Math.max(jitter, 1e-6 * trace)).forEach((x, i) =>
          expect(Math.abs(got[i] - x)).toBeLessThan(0.02),
        );
      },
    ),
    { numRuns: 25 },
  );
});

test('leverage is that of the keys before rotation', () => {
  const turned = {
      rotary: 2,
      angles: (p: Uint32Array) => ({ cos: Float32Array.from(p, Math.cos), sin: Float32Array.from(p, Math.sin) }),
    },
    data = Float32Array.from({ length: 12 }, (_, i) => Math.sin(i * 2.3));
  const rotated = data.slice();
  for (let i = 0; i < 6; i++) {
    const [a, b] = [data[2 * i], data[2 * i + 1]];
    rotated[2 * i] = a * Math.cos(i) - b * Math.sin(i);
    rotated[2 * i + 1] = b * Math.cos(i) + a * Math.sin(i);
  }
  const of = (x: Float32Array, rope: typeof turned | typeof still) =>
    Array.from(apply(leverage(), { keys: { data: x, shape: [1, 6, 2] }, rope, at: { headDim: 2 } }).scores!.data);
  of(data, still).forEach((x, i) => expect(of(rotated, turned)[i]).toBeCloseTo(x, 4));
});

test('noncausal agrees with its oracle', () => {
  fc.assert(
    fc.property(
      sceneSpecs({ layers: 1, ragged: false }).filter((s) => s.vectors !== 'long'),
      fc.integer({ min: 1, max: 6 }),
      (spec, chunk) => {
        const { at, keys, values, positions } = scene(spec).layers[0],
          { kvHeads: G, queryHeads: H, slots: n, headDim: d, length } = at,
          q = Float32Array.from({ length: H * length * d }, (_, i) => Math.sin(i * 1.3));
        const got = apply(noncausalAttention({ chunk, window: 16, kernel: 1 }), {
          queries: { data: q, shape: [H, length, d] },
          keys: { data: keys, shape: [G, n, d] },
          values: { data: values, shape: [G, n, d] },
          positions: { data: positions, shape: [G, n] },
          at: { length },
        }).scores!.data;
        for (let g = 0; g < G; g++) {
          const placed = Array.from(positions.subarray(g * n, (g + 1) * n)),
            R = H / G,
            heads = Array.from({ length: R }, (_, r) =>
              massOracle(rows(q, g * R + r, length, d), rows(keys, g, n, d), placed, chunk),
            );
          rows(values, g, n, d).forEach((v, i) =>
            expect(Math.abs(got[g * n + i] - (heads.reduce((a, row) => a + row[i], 0) / R) * size(v))).toBeLessThan(
              1e-4,
            ),
          );
        }
      },
    ),
    { numRuns: 50 },
  );
});

test('byEviction takes the share that goes', () => {
  expect(Array.from(apply(byEviction(), { scores: [[4, 8, 0, 0]], budget: 1 }).scores!.data)).toEqual([3, 6, 0, 0]);
});
test('a sequence longer than the kept queries is an error', () => {
  const x = { data: new Float32Array(6), shape: [1, 6, 1] };
  expect(() =>
    apply(noncausalAttention({ window: 4 }), {
      queries: { data: new Float32Array(4), shape: [1, 4, 1] },
      keys: x,
      values: x,
    }),
  ).toThrow('noncausalAttention: reads the queries of all 6 tokens, got the last 4: expected a window of at least 6');
});
describe('options are checked', () => {
  test.each([
    ['jitter', () => leverage({ jitter: 0 })],
    ['chunk', () => noncausalAttention({ chunk: 0 })],
    ['window', () => noncausalAttention({ window: 0.5 })],
    ['kernel', () => noncausalAttention({ kernel: 2 })],
  ])('%s', (option, make) => {
    expect(make).toThrow(new RegExp(`^\\w+: ${option} must be `));
  });
});
