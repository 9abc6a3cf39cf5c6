import fc from 'fast-check';
import { expect, test } from 'vitest';
import { headScores, headScoresFile } from '../src/index.ts';

/** cos and sin `[n, half]` of position p and pair i at p / 4^i. */
const anglesOf = (n: number, half: number) => {
  const table = (f: (x: number) => number): Float32Array =>
    Float32Array.from({ length: n * half }, (_, i) => f(Math.floor(i / half) / 4 ** (i % half)));
  return { cos: table(Math.cos), sin: table(Math.sin), half };
};

test('scores are areas under running sums of weights: complex numbers turned by position, mean over the group', () => {
  const spec = fc.record({
    n: fc.integer({ min: 1, max: 24 }),
    half: fc.integer({ min: 1, max: 3 }),
    still: fc.nat(2),
    kvHeads: fc.integer({ min: 1, max: 2 }),
    group: fc.integer({ min: 1, max: 3 }),
    seed: fc.integer({ min: 1, max: 999 }),
  });
  fc.assert(
    fc.property(spec, ({ n, half, still, kvHeads: G, group, seed }) => {
      const d = 2 * half + still,
        vectors = (heads: number, by: number) =>
          Float32Array.from({ length: heads * d }, (_, i) => Math.sin(by * (i + seed))),
        [queries, keys] = [vectors(G * group, 1.7), vectors(G, 0.9)],
        got = headScores({ queries, keys, headDim: d, ...anglesOf(n, half) });
      // q turned by its position against k by its own: Re(q conj(k) e^(i w (n - 1 - p))), and channels that do not turn
      const logit = (h: number, g: number, p: number): number => {
        let sum = 0;
        for (let i = 0; i < half; i++) {
          const [a, b, c, e] = [queries[h * d + i], queries[h * d + i + half], keys[g * d + i], keys[g * d + i + half]];
          const [re, im] = [a * c + b * e, b * c - a * e],
            angle = (n - 1 - p) / 4 ** i;
          sum += re * Math.cos(angle) - im * Math.sin(angle);
        }
        for (let i = 2 * half; i < d; i++) sum += queries[h * d + i] * keys[g * d + i];
        return sum / Math.sqrt(d);
      };
      for (let g = 0; g < G; g++) {
        let want = 0;
        for (let h = g * group; h < (g + 1) * group; h++) {
          const weights = Array.from({ length: n }, (_, p) => Math.exp(logit(h, g, p))),
            all = weights.reduce((a, b) => a + b, 0);
          let running = 0;
          for (const w of weights) want += (running += w / all) / n / group;
        }
        expect(got[g]).toBeCloseTo(want, 5);
      }
    }),
  );
});
test('keys that say nothing give (n + 1) / 2n, and the file of scores is what duoAttention reads', () => {
  const still = { queries: new Float32Array(8).fill(1), keys: new Float32Array(4), headDim: 4, ...anglesOf(9, 2) };
  expect(headScores(still)).toEqual([expect.closeTo(10 / 18, 12)]);
  expect(
    new TextDecoder().decode(
      headScoresFile([
        [0.25, 1],
        [0.5, 0],
      ]),
    ),
  ).toBe('0.25\t1\n0.5\t0\n');
});
