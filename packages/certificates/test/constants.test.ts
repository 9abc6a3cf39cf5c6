import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { certificates, fitConstants, freezingBound, readConstants, windowBound } from '../src/index.ts';
import type { Constants, AttentionRow } from '../src/index.ts';

const shape = { layers: 8, queryHeads: 2, kvHeads: 1, headDim: 4 };
/**
 * Keys `[m, d]` of all layers whose largest change is B e^(-μ (ℓ - ℓ_s)), queries of norm 1 .. 3, and weights that fade
 * as e^(-λ age).
 */
function calibrated({ B = 2, mu = 0.3, lambda = 0.2, m = 6, n = 300 } = {}): Constants {
  const all = fitConstants(shape, { sinks: 2 }),
    base = Float32Array.from({ length: m * 4 }, (_, i) => Math.sin(i));
  for (const block of [0, 1])
    for (let layer = 0; layer < 8; layer++) {
      all.queries(
        layer,
        Float32Array.from({ length: 2 * m * 4 }, (_, i) => (i % 4 === 0 ? 1 + block + (i === 0 ? 1 : 0) : 0)),
      );
      let at = 0;
      // of the first key, the others move by half
      for (let l = 6; l <= layer + 1; l++) at += B * Math.exp(-mu * (l - 6));
      all.keys(
        layer,
        base.map((x, i) => x + (i % 4 === 1 ? (i < 4 ? at : at / 2) : 0)),
      );
      const raw = Array.from({ length: n }, (_, i) => (i < 2 ? 0 : Math.exp(-lambda * (n - 1 - i)))),
        sum = raw.reduce((a, b) => a + b, 0),
        row = raw.map((w, i) => (i < 2 ? 0.2 : (0.6 * w) / sum));
      all.newest(layer, Float32Array.from([...row, ...row]));
    }
  return all.take(m);
}

test('constants that made the text are found again, with next to no error', () => {
  const { change, fading, queryNorm, keyNorm } = calibrated();
  expect(change!.scale).toBeCloseTo(2, 4);
  expect(change!.rate).toBeCloseTo(0.3, 4);
  expect(change!.error).toBeLessThan(1e-5);
  expect(queryNorm.max).toBe(3);
  expect(queryNorm.mean).toBeCloseTo(1.5 + 1 / 12, 6); // one of twelve is longer by 1
  expect(keyNorm).toBeGreaterThan(4);
  for (const fit of fading) expect(fit!.sinkMass).toBeCloseTo(0.4, 6);
  expect(calibrated({ m: 6, n: 12 }).fading[0]!.rate).toBeGreaterThan(0.2); // ages 1, 2, 4, 8 of twelve tokens
});
test("a block's keys are compared with those of the layer below in the same block", () => {
  const all = fitConstants({ ...shape, layers: 4 }),
    still = Float32Array.of(1, 2, 3, 4);
  for (const block of [0, 5])
    for (let layer = 0; layer < 4; layer++)
      all.keys(
        layer,
        still.map((x) => x + block + (layer === 3 ? 0.5 : 0)),
      );
  expect(all.take(2).change).toBeUndefined(); // only layer 4 changed, and layer 3 not at all
  const two = fitConstants({ ...shape, layers: 2 });
  for (const block of [0, 5])
    for (let layer = 0; layer < 2; layer++)
      two.keys(
        layer,
        still.map((x) => x + block + layer),
      );
  expect(two.take(2).change).toBeUndefined(); // the lowest layer has no layer below it
});
test('what was written is read back; what was not written by this is refused in one sentence', () => {
  const made = calibrated(),
    text = JSON.stringify(made);
  expect(readConstants(text, shape)).toEqual(made);
  const spoilt = (change: object): string => JSON.stringify({ ...made, ...change });
  for (const [bad, says] of [
    ['{', 'a JSON object'],
    ['[]', 'the file to be an object'],
    ['7', 'the file to be an object'],
    [spoilt({ layers: 4 }), 'a model with 8 layers'],
    [spoilt({ dim: 8 }), '4 channels a head'],
    [spoilt({ tokens: -1 }), 'tokens to be a number of at least 0'],
    [spoilt({ sinks: 0.5 }), 'sinks to be a whole number'],
    [spoilt({ fading: [] }), 'fading to be 8 entries'],
    [spoilt({ fading: Array(8).fill({ scale: 1 }) }), 'rate to be a number'],
    [spoilt({ fading: Array(8).fill(3) }), 'fading to be an object'],
    [spoilt({ queryNorm: { max: 'x' } }), 'max to be a number'],
    [spoilt({ change: { scale: -1, rate: 0, error: 0, above: 0 } }), 'scale to be a number of at least 0'],
    [spoilt({ keyNorm: null }), 'keyNorm to be a number'],
  ] as const)
    expect(() => readConstants(bad, shape), bad.slice(0, 60)).toThrow(says);
  fc.assert(
    fc.property(fc.json(), (json) => {
      expect(() => readConstants(json, shape)).toThrow(/^calibration: expected /);
    }),
    { numRuns: 60 },
  );
});

describe('in a run', () => {
  const constants = calibrated({ B: 0.2 }),
    row = (over: Partial<AttentionRow>): AttentionRow => ({
      at: 'view',
      layer: 7,
      head: 0,
      step: 1,
      query: 99,
      weights: Array.from({ length: 100 }, () => 0.01),
      positions: Array.from({ length: 100 }, (_, i) => i),
      kept: [0, 1],
      ...over,
    });
  const run = (frozen: readonly number[] = [], total = (): number | undefined => undefined) => ({
    heads: 2,
    layers: 8,
    steps: 4,
    frozen,
    total,
  });
  test('windows and frozen positions are bounded by the formulas, and joined', () => {
    const all = certificates({ constants }),
      frozen = [0, 0, 0, 0, 0, 0, 9, 20];
    for (const from of [11, 40]) all.row(row({ window: { sinks: 2, from } }));
    all.row(row({ layer: 2, window: { sinks: 2, from: 0 } })); // hides nothing
    const [six, seven, ...rest] = all.conclude(run(frozen)).schedules!,
      fit = constants.fading[7]!,
      bound = (window: number): number => windowBound({ sinkMass: fit.sinkMass, rate: fit.rate, window });
    expect(rest).toEqual([]);
    expect(seven).toMatchObject({ layer: 7, window: { rows: 2 }, freezing: { positions: 20 } });
    expect(seven.window!.dropped.mean).toBeCloseTo((0.09 + 0.38) / 2, 9);
    expect(seven.window!.fitted.mean).toBeCloseTo((bound(89) + bound(60)) / 2, 12);
    const freezing = (depth: number, queryNorm: number): number =>
      freezingBound({ queryNorm, dim: 4, scale: constants.change!.scale, rate: constants.change!.rate, depth });
    expect(six).toEqual({
      layer: 6,
      freezing: {
        positions: 9,
        worst: freezing(1, 3),
        average: freezing(1, constants.queryNorm.mean),
        covering: six.freezing!.covering,
      },
      joint: freezing(1, 3),
    });
    expect(seven.freezing!.worst).toBe(freezing(2, 3));
    expect(seven.joint).toBe(Math.min(1, bound(60) + freezing(2, 3)));
  });
  test('without windows, frozen positions or constants there are none', () => {
    const none = certificates();
    none.row(row({ window: { sinks: 2, from: 40 } }));
    expect(none.conclude(run([9])).schedules).toBeUndefined();
    expect(certificates({ constants }).conclude(run([0, 0])).schedules).toBeUndefined();
  });
  test('reuse is bounded for the rows that reused, by the query that they reused', () => {
    const all = certificates(),
      q = [
        [1, 0, 0, 0],
        [0, 3, 0, 0],
        [1, 0.1, 0, 0],
      ].map((v) => Float32Array.from(v)),
      ago = [0, 0, 2];
    q.forEach((vector, step) => {
      for (const head of [0, 1])
        all.row(
          row({
            step,
            head,
            vector,
            keyNorm: 0.5,
            state: (id) => (id === 'state.cis.ago' ? (head === 0 ? ago[step] : 0) : undefined),
            kept: [step],
          }),
        );
    });
    const { reuse } = all.conclude(run());
    expect(reuse).toMatchObject({ rows: 1 });
    expect(reuse!.distance.mean).toBeCloseTo(0.1, 6);
    expect(reuse!.bound.mean).toBeCloseTo(((2 * 0.5) / 2) * 0.1, 6);
    expect(reuse!.printed.mean).toBeCloseTo(((4 * 0.5) / 2) * Math.sqrt(2 - 2 / Math.hypot(1, 0.1)), 4);
    expect(reuse!.beyond.mean).toBeCloseTo(0, 9);
    // the same weights for both queries: attention did not move
    expect(reuse!.drift).toMatchObject({ rows: 1, distance: { max: 0 } });
    expect(reuse!.drift!.bound.mean).toBeCloseTo(99 * (0.5 / 2) * 0.1, 5);
  });
  test('drift is that of the slots that both queries had, and left out where some have gone', () => {
    const all = certificates(),
      see = (step: number, ago: number, weights: readonly number[], positions: readonly number[]) =>
        all.row(
          row({
            ...{ step, weights, positions, query: positions.at(-1)!, kept: [0], keyNorm: 1 },
            vector: Float32Array.of(1, step),
            state: () => ago,
          }),
        );
    see(0, 0, [0.5, 0.5], [0, 10]);
    see(1, 1, [0.2, 0.6, 0.2], [0, 10, 11]);
    see(2, 2, [0.9, 0.1], [10, 11]);
    const { drift } = all.conclude(run()).reuse!;
    expect(drift!.rows).toBe(1);
    expect(drift!.distance.mean).toBeCloseTo(7.5 - 5, 9);
    expect(drift!.bound.mean).toBeCloseTo(10 / Math.sqrt(2), 6);
  });
  const noisy = fc.record({
    weights: fc.array(fc.double({ min: 1e-4, max: 1, noNaN: true }), { minLength: 2, maxLength: 12 }),
    noise: fc.infiniteStream(fc.double({ min: -2, max: 2, noNaN: true })),
    forced: fc.infiniteStream(fc.integer({ min: 0, max: 3 })),
    size: fc.integer({ min: 1, max: 12 }),
  });
  test('views that choose by estimates drop at most δ* + 2 η and δ* + 2 ε, whatever is forced', () => {
    fc.assert(
      fc.property(noisy, ({ weights, noise, forced, size }) => {
        const sum = weights.reduce((a, b) => a + b, 0),
          w = weights.map((x) => x / sum),
          scores = w.map((x) => 5 + Math.log(x) + noise.next().value),
          fixed = w.map((_, i) => i).filter(() => forced.next().value === 0);
        const rest = w
            .map((_, i) => i)
            .filter((i) => !fixed.includes(i))
            .sort((a, b) => scores[b] - scores[a]),
          all = certificates();
        all.row(
          row({
            weights: w,
            positions: w.map((_, i) => i),
            kept: [...fixed, ...rest.slice(0, size)].sort((a, b) => a - b),
            by: { scores, forced: fixed },
          }),
        );
        const { logitError, variation, dropped, byLogits, byVariation } = all.conclude(run()).surrogate!;
        expect(dropped.max).toBeLessThanOrEqual(byLogits.max + 1e-9);
        expect(dropped.max).toBeLessThanOrEqual(byVariation.max + 1e-9);
        expect(variation.max).toBeLessThanOrEqual(logitError.max + 1e-9); // Lemma 4
      }),
      { numRuns: 200 },
    );
    const exact = certificates();
    exact.row(
      row({
        weights: [0.5, 0.3, 0.2, 0],
        positions: [0, 1, 2, 3],
        kept: [0],
        by: { scores: [...[0.5, 0.3, 0.2].map(Math.log), -200], forced: [] },
      }),
    ); // e^-200 underflows to 0 in f32
    expect(exact.conclude(run()).surrogate!.byLogits.max).toBeCloseTo(0.5, 9);
    const wrong = certificates();
    wrong.row(
      row({
        weights: [0.7, 0.3, 0],
        positions: [0, 1, 2],
        kept: [2],
        by: { scores: [Math.log(0.7), Math.log(0.3), 1], forced: [] },
      }),
    );
    expect(wrong.conclude(run()).surrogate!.logitError.max).toBeCloseTo(1 + 149 * Math.LN2, 6);
    expect(wrong.conclude(run()).surrogate!.byVariation.max).toBe(1);
  });
});
