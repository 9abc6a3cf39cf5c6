import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { compose, reduceHeads, zScore } from '@kv/core';
import { apply, cpu } from '@kv/cpu';
import type { Rope } from '@kv/core';
import { each, kernelLaws, scorerLaws } from '@kv/laws';
import { aheadProducts, calibration, preRope, preRopeFile, readPreRope, futureQueryScores } from '../src/index.ts';
import { rotated, triattentionOracle } from './triattention.oracle.ts';
import type { Complex } from './triattention.oracle.ts';

const signals = (
  signal: { readonly id: string },
  { at: { queryHeads, headDim } }: { readonly at: { readonly queryHeads: number; readonly headDim: number } },
) => {
  const half = Math.floor(headDim / 2);
  return signal.id === 'preRope'
    ? {
        mean: Float32Array.from({ length: queryHeads * headDim }, (_, i) => Math.sin(i * 1.7)),
        size: new Float32Array(queryHeads * half).fill(1.5),
        half,
        queryHeads,
        headDim,
      }
    : undefined;
};
describe('futureQueryScores', () => {
  each(scorerLaws(futureQueryScores({ horizon: 64 }), { signals, runs: 40 }), test);
});
describe('ahead-products', () => {
  const put = (seed: number, ...shape: number[]) => ({
    data: Float32Array.from({ length: shape.reduce((a, b) => a * b, 1) }, (_, i) => Math.sin(i + seed)),
    shape,
  });
  each(
    kernelLaws(aheadProducts, {
      make: ({ rows, slots, lengths, seed }) => ({
        inputs: {
          keys: { ...put(seed, rows, slots, 4), lengths },
          query: put(seed + 1, 2 * rows, 4),
          spread: put(seed + 2, 2 * rows, seed % 3),
        },
      }),
    }),
    test,
  );
  test('query rows have the lengths of their KV head', async () => {
    const { ops } = cpu,
      lengths = ops.from({ data: Uint32Array.of(1, 3), shape: [2] });
    const [read] = await cpu.read([
      ops.kernel(aheadProducts, {
        keys: ops.from(put(0, 2, 3, 4), 'f32', lengths),
        query: ops.from(put(1, 4, 4)),
        spread: ops.from(put(2, 4, 2)),
      }),
    ]);
    expect([read.shape, Array.from(read.lengths!)]).toEqual([
      [4, 3],
      [1, 1, 3, 3],
    ]);
  });
});

const num = fc.integer({ min: -300, max: 300 }).map((x) => x / 100),
  complex = fc.record({ re: num, im: num });
const cases = fc.integer({ min: 1, max: 3 }).chain((half) =>
  fc.record({
    half: fc.constant(half),
    extra: fc.array(num, { minLength: 2, maxLength: 2 }),
    mean: fc.array(complex, { minLength: half, maxLength: half }),
    more: fc.array(fc.nat(300), { minLength: half, maxLength: half }),
    keys: fc.array(fc.record({ k: fc.array(complex, { minLength: half, maxLength: half }), p: fc.nat(500) }), {
      minLength: 1,
      maxLength: 6,
    }),
    t: fc.integer({ min: 501, max: 900 }),
    factor: fc.constantFrom(1, 1.25),
    horizon: fc.constantFrom(1, 8, 300),
  }),
);
const omegas = [1, 0.13, 0.011];
const ropeOf = (half: number, factor: number): Rope => {
  const table = (f: (x: number) => number) => (p: Uint32Array) =>
    Float32Array.from(Array.from(p).flatMap((x) => omegas.slice(0, half).map((w) => factor * f(w * x))));
  return { rotary: 2 * half, angles: (p) => ({ cos: table(Math.cos)(p), sin: table(Math.sin)(p) }) };
};
const flat = (of: readonly Complex[]): number[] => [...of.map((c) => c.re), ...of.map((c) => c.im)];

test('the linear form on cached keys is the printed sum over un-rotated ones, with an attention factor too', () => {
  fc.assert(
    fc.property(cases, ({ half, mean, more, keys, t, factor, horizon }) => {
      const size = mean.map(({ re, im }, f) => Math.hypot(re, im) + more[f] / 100),
        d = 2 * half;
      const cached = keys.flatMap(({ k, p }) => flat(k.map((c, f) => rotated(c, omegas[f] * p, factor))));
      const got = apply(futureQueryScores({ horizon }), {
        keys: { data: Float32Array.from(cached), shape: [1, keys.length, d] },
        rope: ropeOf(half, factor),
        preRope: {
          mean: Float32Array.from(flat(mean)),
          size: Float32Array.from(size),
          half,
          queryHeads: 1,
          headDim: d,
        },
        at: { length: t, headDim: d, queryHeads: 1 },
      }).scores!.data;
      keys.forEach(({ k, p }, i) => {
        const want = triattentionOracle(mean, size, k, p, t, omegas, factor, horizon);
        expect(Math.abs(got[i] - want)).toBeLessThan(2e-4 * (1 + Math.abs(want)));
      });
    }),
    { numRuns: 150 },
  );
});
test('a constant query: R = 1, nothing but the inner products with it, turned to its future places', () => {
  fc.assert(
    fc.property(cases, ({ half, mean, keys, t }) => {
      const d = 2 * half,
        rope = ropeOf(half, 1),
        turned = (c: readonly Complex[], p: number) => flat(c.map((x, f) => rotated(x, omegas[f] * p, 1)));
      const stats = calibration(1, d),
        seen = [0, 7, 30],
        { cos, sin } = rope.angles(Uint32Array.from(seen));
      stats.add({ q: Float32Array.from(seen.flatMap((p) => turned(mean, p))), cos, sin, half });
      const row = stats.take();
      row.mean.forEach((x, i) => expect(x).toBeCloseTo(flat(mean)[i], 4));
      const got = apply(futureQueryScores({ horizon: 4 }), {
        keys: { data: Float32Array.from(keys.flatMap(({ k, p }) => turned(k, p))), shape: [1, keys.length, d] },
        rope,
        preRope: { ...row, queryHeads: 1, headDim: d },
        at: { length: t, headDim: d, queryHeads: 1 },
      }).scores!.data;
      keys.forEach(({ k, p }, i) => {
        const want =
          [1, 2, 4].reduce(
            (s, delta) => s + turned(mean, t + delta).reduce((sum, x, c) => sum + x * turned(k, p)[c], 0),
            0,
          ) / 3;
        expect(Math.abs(got[i] - want)).toBeLessThan(1e-3 * (1 + Math.abs(want)));
      });
    }),
    { numRuns: 60 },
  );
});
test('channels that do not rotate count with their mean', () => {
  const { mean, extra } = { mean: [1, 0.5], extra: [2, -3] },
    stats = calibration(1, 4);
  stats.add({ q: Float32Array.of(1, 0.5, 2, -3), cos: Float32Array.of(1), sin: Float32Array.of(0), half: 1 });
  expect(Array.from(stats.take().mean)).toEqual([...mean, ...extra]);
  const rope = ropeOf(1, 1),
    score = (k: number[]): number =>
      apply(futureQueryScores({ horizon: 1 }), {
        keys: { data: Float32Array.from(k), shape: [1, 1, 4] },
        rope,
        preRope: { ...stats.take(), queryHeads: 1, headDim: 4 },
        at: { length: 3, headDim: 4, queryHeads: 1 },
      }).scores!.data[0];
  expect(score([0, 0, 1, 1])).toBeCloseTo(-1, 6);
});

test('the file is read back, and nothing else is', async () => {
  const rows = [0, 1].map((l) => ({
      mean: Float32Array.from({ length: 8 }, (_, i) => i + l),
      size: Float32Array.from({ length: 4 }, (_, i) => i * l),
      half: 2,
    })),
    file = preRopeFile({ tokens: 99, rows }, { queryHeads: 2, headDim: 4 });
  expect(readPreRope(file)).toEqual({ tokens: 99, rows, queryHeads: 2, headDim: 4 });
  expect(await preRope.provide!({ artifact: async () => file } as never, 1)).toEqual({
    ...rows[1],
    queryHeads: 2,
    headDim: 4,
  });
  await expect(preRope.provide!({ artifact: async () => undefined } as never, 0)).rejects.toThrow(
    "futureQueryScores: expected pre-rope.safetensors next to the model, got none: make it with 'node tools/calibrate.mjs MODEL'",
  );
  await expect(preRope.provide!({ artifact: async () => file } as never, 2)).rejects.toThrow(
    'expected statistics of layer 2, got 2 layers',
  );
  fc.assert(
    fc.property(fc.nat(file.length - 1), fc.nat(255), fc.nat(file.length), (at, byte, end) => {
      const broken = file.slice(0, end);
      if (at < broken.length) broken[at] = byte;
      try {
        readPreRope(broken);
      } catch (error) {
        expect(String((error as Error).message)).toMatch(/^pre-rope\.safetensors: expected /);
      }
    }),
    { numRuns: 400 },
  );
});
test('statistics of another model and a wrong horizon are refused', () => {
  const stats = { mean: new Float32Array(4), size: new Float32Array(2), half: 2, queryHeads: 1, headDim: 4 },
    rope = ropeOf(1, 1);
  expect(() =>
    apply(futureQueryScores(), {
      keys: { data: new Float32Array(2), shape: [1, 1, 2] },
      rope,
      preRope: stats,
      at: { headDim: 2 },
    }),
  ).toThrow(
    'futureQueryScores: expected statistics of 1 heads with 2 channels, 2 of which rotate, got 1 heads with 4 and 4',
  );
  expect(() => futureQueryScores({ horizon: 0 })).toThrow('futureQueryScores: horizon must be');
  expect(compose(futureQueryScores(), zScore(), reduceHeads({ kind: 'max' })).label).toBe(
    'futureQueryScores ∘ zScore ∘ reduceHeads(kind=max)',
  );
});
