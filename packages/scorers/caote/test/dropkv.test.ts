import fc from 'fast-check';
import ndarray from 'ndarray';
import { describe, expect, test } from 'vitest';
import { apply, cpu, readCpu } from '@kv/cpu';
import { each, kernelLaws, scene, sceneSpecs, scorerLaws } from '@kv/laws';
import { dropkv, squaredErrors } from '../src/index.ts';
import { windowErrors } from './caote.oracle.ts';

describe.each([dropkv({ window: 2 }), dropkv({ window: 5 })].map((piece) => [piece.label, piece] as const))(
  '%s',
  (_, piece) => {
    each(scorerLaws(piece, { runs: 40 }), test);
  },
);
const put = (f: (i: number) => number, ...shape: number[]) => ({
  data: Float32Array.from({ length: shape.reduce((a, b) => a * b, 1) }, (_, i) => f(i)),
  shape,
});
describe('squared-errors', () => {
  each(
    kernelLaws(squaredErrors, {
      runs: 15,
      make: ({ rows, slots, lengths }) => ({
        inputs: {
          p: put((i) => (i % 13) / 13, rows * 4, slots),
          o: put(Math.sin, rows * 4, 3),
          v: { ...put(Math.cos, rows, slots, 3), lengths },
        },
        params: { heads: rows * 2 },
      }),
    }),
    test,
  );
});
test('an output next to a value keeps the digits of what is between them', () => {
  const { ops } = cpu,
    apart = 2 ** -12,
    one = (x: number) => ops.from({ data: Float32Array.of(x, 1, 3), shape: [1, 3] }),
    v = ops.from({ data: Float32Array.of(1, 1, 3), shape: [1, 1, 3] }),
    p = ops.from({ data: Float32Array.of(0.5), shape: [1, 1] });
  const [error] = readCpu(ops.kernel(squaredErrors, { p, o: one(1 + apart), v }, { heads: 1 })).data;
  expect(error / apart ** 2).toBeCloseTo(1, 5);
});

test('DropKV is the sum over the window of |o - o without j|², by brute force, with learned sinks and without', () => {
  fc.assert(
    fc.property(
      sceneSpecs({ layers: 1, ragged: false }).filter((s) => s.vectors !== 'long' && s.slots > 3),
      fc.integer({ min: 1, max: 2 }),
      fc.boolean(),
      (spec, window, sunk) => {
        const { at, keys, values, positions } = scene(spec).layers[0],
          { kvHeads: G, queryHeads: H, slots: n, headDim: d } = at,
          q = Float32Array.from({ length: H * window * d }, (_, i) => Math.sin(i * 1.3) / 2);
        const got = apply(dropkv({ window }), {
          queries: { data: q, shape: [H, window, d] },
          keys: { data: keys, shape: [G, n, d] },
          values: { data: values, shape: [G, n, d] },
          positions: { data: positions, shape: [G, n] },
          at: {
            ...{ length: at.length, headDim: d, queryHeads: H },
            ...(sunk && { scale: 0.4, learnedSinks: Float32Array.from({ length: H }, (_, h) => 3 * Math.sin(h + 1)) }),
          },
        }).scores!.data;
        const array = (x: Float32Array, r: number, m: number) =>
          ndarray(Float64Array.from(x.subarray(r * m * d, (r + 1) * m * d)), [m, d]);
        for (let h = 0; h < H; h++) {
          const g = Math.floor((h * G) / H),
            want = windowErrors(
              array(q, h, window),
              array(keys, g, n),
              array(values, g, n),
              Array.from(positions.subarray(g * n, (g + 1) * n)),
              at.length,
              sunk ? { scale: 0.4, sink: 3 * Math.sin(h + 1) } : {},
            ),
            largest = Math.max(1, ...want.slice(0, n - window));
          want.forEach((x, j) => {
            if (j < n - window) expect(Math.abs(got[h * n + j] - x)).toBeLessThan(1e-3 * largest);
            else expect(got[h * n + j]).toBe(0);
          });
        }
      },
    ),
    { numRuns: 60 },
  );
});
test('options are checked', () => {
  expect(() => dropkv({ window: 0 })).toThrow('dropkv: window must be a positive whole number of queries, got 0');
});
