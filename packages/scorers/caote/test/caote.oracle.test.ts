import fc from 'fast-check';
import ndarray from 'ndarray';
import { expect, test } from 'vitest';
import { apply } from '@kv/cpu';
import type { Piece } from '@kv/core';
import { caote, fastCaote } from '../src/index.ts';
import { evictionErrors, fastErrors } from './caote.oracle.ts';

/**
 * Weights of `heads` query heads over `kvHeads` KV heads with values; the share of the heaviest slot stays below 0.98,
 * so that odds are well conditioned in f32.
 */
interface Case {
  readonly kvHeads: number;
  readonly heads: number;
  readonly n: number;
  readonly d: number;
  readonly weights: number[];
  readonly values: number[];
}
const cases: fc.Arbitrary<Case> = fc
  .record({
    kvHeads: fc.integer({ min: 1, max: 2 }),
    group: fc.integer({ min: 1, max: 3 }),
    n: fc.integer({ min: 2, max: 9 }),
    d: fc.integer({ min: 1, max: 4 }),
  })
  .chain(({ kvHeads, group, n, d }) => {
    const numbers = (count: number, min: number, max: number): fc.Arbitrary<number[]> =>
      fc.array(fc.float({ min, max, noNaN: true }), { minLength: count, maxLength: count });
    return fc.record({
      kvHeads: fc.constant(kvHeads),
      heads: fc.constant(kvHeads * group),
      n: fc.constant(n),
      d: fc.constant(d),
      weights: numbers(kvHeads * group * n, 0.125, 4),
      values: numbers(kvHeads * n * d, -10, 10),
    });
  });
/** Largest difference relative to the largest value: the simplex and the output are stored in f32. */
const TOLERANCE = 2e-5;

function agrees(piece: Piece, oracle: typeof evictionErrors): void {
  fc.assert(
    fc.property(cases, ({ kvHeads, heads, n, d, weights, values }) => {
      const got = apply(piece, {
        scores: { data: Float32Array.from(weights), shape: [heads, n] },
        values: { data: Float32Array.from(values), shape: [kvHeads, n, d] },
        at: { queryHeads: heads },
      }).scores!.data;
      const scale = Math.max(1, ...values.map(Math.abs));
      for (let h = 0; h < heads; h++) {
        const want = oracle(
          ndarray(Float64Array.from(weights), [heads, n]).pick(h, null),
          ndarray(Float64Array.from(values), [kvHeads, n, d]).pick(Math.floor((h * kvHeads) / heads), null, null),
        );
        want.forEach((x, j) =>
          expect(Math.abs(got[h * n + j] - x)).toBeLessThanOrEqual(TOLERANCE * scale * Math.sqrt(d)),
        );
      }
    }),
  );
}

test('CAOTE is |o - o without j|, by brute force, on the values of the KV head of each query head', () =>
  agrees(caote(), evictionErrors));
test('FastCAOTE agrees with its oracle', () => agrees(fastCaote(), fastErrors));

test('with a learned sink, CAOTE is |o - o without j| with the sink as one more slot of value 0, and nothing is scaled up', () => {
  fc.assert(
    fc.property(
      cases,
      fc.infiniteStream(fc.constantFrom(1e-6, 0.3, 5, 1e6)),
      ({ kvHeads, heads, n, d, weights, values }, sinks) => {
        const parts = Array.from({ length: heads }, (_, h) => {
          const row = weights.slice(h * n, (h + 1) * n),
            sink = sinks.next().value as number,
            whole = row.reduce((sum, w) => sum + w, sink);
          return [...row, sink].map((w) => w / whole);
        });
        const of = (piece: Piece): Float32Array =>
          apply(piece, {
            scores: parts.map((row) => row.slice(0, n)),
            values: { data: Float32Array.from(values), shape: [kvHeads, n, d] },
            at: { queryHeads: heads, learnedSinks: new Float32Array(heads) },
          }).scores!.data as Float32Array;
        const [exact, fast] = [of(caote()), of(fastCaote())],
          scale = Math.max(1, ...values.map(Math.abs)) * Math.sqrt(d);
        parts.forEach((row, h) => {
          const g = Math.floor((h * kvHeads) / heads),
            own = values.slice(g * n * d, (g + 1) * n * d),
            want = evictionErrors(
              ndarray(Float64Array.from(row), [n + 1]),
              ndarray(Float64Array.from([...own, ...new Array<number>(d).fill(0)]), [n + 1, d]),
            ),
            // the mean value is of slots alone: with weights that sum to 1, the odds are those of h times the rest
            mean = fastErrors(
              ndarray(Float64Array.from(row.slice(0, n)), [n]),
              ndarray(Float64Array.from(own), [n, d]),
            ),
            whole = 1 - row[n];
          for (let j = 0; j < n; j++) {
            expect(Math.abs(exact[h * n + j] - want[j])).toBeLessThanOrEqual(TOLERANCE * scale);
            const odds = (p: number): number => p / (1 - p);
            expect(Math.abs(fast[h * n + j] - (mean[j] * odds(row[j])) / odds(row[j] / whole))).toBeLessThanOrEqual(
              TOLERANCE * scale,
            );
          }
        });
      },
    ),
  );
});

test('a row without mass weighs all slots alike', () => {
  const values = { data: Float32Array.of(0, 0, 27, 36, 9, 12), shape: [1, 3, 2] };
  const got = apply(caote(), { scores: [[0, 0, 0]], values }).scores!.data;
  evictionErrors(ndarray(new Float64Array(3), [3]), ndarray(Float64Array.from(values.data), [3, 2])).forEach((x, j) =>
    expect(got[j]).toBeCloseTo(x, 4),
  );
});

test('one slot with all the mass stays finite, and is the last to go', () => {
  const { data } = apply(caote(), { scores: [[0, 1, 0]], values: { data: Float32Array.of(1, 2, 3), shape: [1, 3, 1] } })
    .scores!;
  expect(Array.from(data).every(Number.isFinite)).toBe(true);
  expect(
    apply(caote(), { scores: [[1]], values: { data: Float32Array.of(5), shape: [1, 1, 1] } }).scores!.data[0],
  ).toBe(0);
});

test('square is the square of the distance', () => {
  const inputs = {
    scores: [[0.5, 0.25, 0.25]],
    values: { data: Float32Array.of(0, 0, 27, 36, 9, 12), shape: [1, 3, 2] },
  };
  expect(Array.from(apply(caote({ square: true }), inputs).scores!.data)).toEqual([225, 300, 0]);
});
