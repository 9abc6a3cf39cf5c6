import fc from 'fast-check';
import ndarray, { type NdArray } from 'ndarray';
import { expect } from 'vitest';
import { LayerCache, Ledger } from '@kv/engine';
import { mulberry } from '@kv/core/shared';
import type { OracleHead } from './attention-oracle.ts';

/** A cache, the same cache as lists, and queries for it. */
export interface AttentionCase {
  readonly cache: LayerCache;
  readonly heads: readonly OracleHead[];
  readonly q: Float32Array;
  readonly queryPositions: Uint32Array;
  readonly H: number;
  readonly n: number;
}

/**
 * Caches with ragged heads that hold at least the queries' own slots. Numbers come from a seeded generator, scaled so
 * that softmax is far from uniform.
 */
export const cases: fc.Arbitrary<AttentionCase> = fc
  .record({
    seed: fc.integer(),
    G: fc.integer({ min: 1, max: 3 }),
    R: fc.integer({ min: 1, max: 3 }),
    d: fc.constantFrom(1, 2, 4, 6, 8, 12, 16, 32),
    n: fc.integer({ min: 1, max: 70 }),
    m: fc.integer({ min: 1, max: 40 }),
    size: fc.constantFrom(0.01, 1, 6),
    share: fc.constantFrom(0, 0.5, 1),
  })
  .map(({ seed, G, R, d, n, m: wanted, size, share }): AttentionCase => {
    const random = mulberry(seed);
    const m = Math.min(n, wanted);
    const numbers = (count: number): Float32Array =>
      Float32Array.from({ length: count }, () => (random() - 0.5) * 2 * size);
    const positions = Uint32Array.from({ length: n }, (_, i) => 3 * i + 1);
    const [k, v] = [numbers(G * n * d), numbers(G * n * d)];
    const cache = new LayerCache(G, d, new Ledger());
    cache.append(k, v, positions);
    const slots = Array.from({ length: G }, () =>
      Uint32Array.from([...positions.keys()].filter((j) => j >= n - m || random() < share)),
    );
    cache.keep(slots);
    const vector = (all: Float32Array, g: number, j: number): number[] => [
      ...all.subarray((g * n + j) * d, (g * n + j + 1) * d),
    ];
    const heads = slots.map((list, g) => ({
      keys: Array.from(list, (j) => vector(k, g, j)),
      values: Array.from(list, (j) => vector(v, g, j)),
      positions: Array.from(list, (j) => positions[j]),
    }));
    return {
      cache,
      heads,
      q: numbers(G * R * m * d),
      queryPositions: positions.slice(n - m),
      H: G * R,
      n: cache.length,
    };
  });

/** Gives the slots in use biases, or, every second time, none: from slots that hardly count to those that count for many. */
export function drawBiases(cache: LayerCache, draw: () => number): void {
  if (draw() < 0.5)
    cache.setBiases(
      Array.from(cache.lengths, (n) =>
        Float32Array.from({ length: n }, () => [0, -3, 2 * draw(), 5][Math.floor(4 * draw())]),
      ),
    );
}

/** The same caches, some of whose slots have biases. */
export const biasedCases: fc.Arbitrary<AttentionCase> = fc.tuple(cases, fc.integer()).map(([one, seed]) => {
  const { cache, heads } = one;
  drawBiases(cache, mulberry(seed));
  const { biases } = cache;
  if (!biases) return one;
  return {
    ...one,
    heads: heads.map((head, g) => ({
      ...head,
      biases: [...biases.data.subarray(g * biases.stride, g * biases.stride + cache.lengths[g])],
    })),
  };
});

/** Returns the queries in float64, `[H, m, d]`. */
export const query = ({ q, H, queryPositions, cache }: AttentionCase): NdArray<Float64Array> =>
  ndarray(Float64Array.from(q), [H, queryPositions.length, cache.headDim]);

/** Expects each number within 1e-5 of the largest expected number. */
export function close(got: ArrayLike<number>, want: ArrayLike<number>, within = 1e-5): void {
  expect(got.length).toBe(want.length);
  const size = Array.from(want).reduce((a, b) => Math.max(a, Math.abs(b)), 1e-30);
  for (let i = 0; i < want.length; i++)
    if (!(Math.abs(got[i] - want[i]) <= within * size))
      expect.fail(`at ${i}: ${got[i]} for ${want[i]} (largest ${size})`);
}
