import { numbers } from '@kv/gpu-testing';
import fc from 'fast-check';
import { expect } from 'vitest';
import { encodeAttention } from '../src/attention.ts';
import { encodeStrongest } from '../src/strongest.ts';
import { attendHead } from './attention.oracle.ts';
import { everywhere, gpuTests, near, twice } from './device.ts';

const gpuTest = await gpuTests();
const shapes = fc.record({
  seed: fc.nat(),
  m: fc.constantFrom(1, 15, 16, 17, 33),
  before: fc.constantFrom(0, 1, 31, 64, 100),
  kvHeads: fc.constantFrom(1, 2),
  group: fc.constantFrom(1, 3),
  headDim: fc.constant(40),
  most: fc.constant(4),
  above: fc.constantFrom(0.005, 0.02),
  part: fc.double({ min: 0, max: 1, noNaN: true }),
  inside: fc.boolean(),
  equal: fc.boolean(),
  softcap: fc.constantFrom(undefined, 2),
  window: fc.constantFrom(undefined, 9),
});

gpuTest("each query's strongest mean weights, and its weights on its own chunk, as the formula has them", (gpu) =>
  everywhere(
    shapes,
    async ({ seed, m, before, kvHeads: G, group, headDim: d, most, above, part, inside, equal, softcap, window }) => {
      const H = G * group,
        slots = before + m,
        capacity = slots + 3,
        first = Math.floor(part * before),
        scale = 2 / Math.sqrt(d),
        row0 = before - first,
        size = slots - first;
      const q = numbers(seed, H * m * d).map((x) => x / 3),
        k = numbers(seed + 1, G * capacity * d).map((x) => x / 3);
      if (equal)
        for (let g = 0; g < G; g++)
          for (let j = 1; j < slots; j++)
            // slots that are the same score the same
            k.copyWithin((g * capacity + j) * d, (g * capacity + (j % 7)) * d, (g * capacity + (j % 7) + 1) * d);
      const at = (all: Float32Array, i: number): number[] => [...all.subarray(i * d, (i + 1) * d)],
        positions = Array.from({ length: slots }, (_, j) => j);
      const heads = Array.from({ length: H }, (_, h) =>
        attendHead({
          queries: Array.from({ length: m }, (_, r) => at(q, h * m + r)),
          queryPositions: positions.slice(before),
          keys: positions.map((j) => at(k, Math.floor(h / group) * capacity + j)),
          values: positions.map(() => [0]),
          positions,
          scale,
          softcap,
          visible: (own, j) => window === undefined || own - j < window,
        }),
      );
      const mean = Array.from({ length: m }, (_, r) =>
        positions.map((j) => heads.reduce((sum, { probabilities }) => sum + probabilities[r][j], 0) / H),
      );
      const slack = (r: number): number =>
        Math.max(
          ...heads.map(
            ({ scoreError, spread }) => (2 * scoreError[r] + 8 * (3 + 2 * spread[r]) + slots + H + 16) * 2 ** -24,
          ),
        );

      const [best, own] = await twice(gpu, (commands) => {
        const a = {
          m,
          heads: H,
          kvHeads: G,
          headDim: d,
          capacity,
          slots,
          views: 0,
          scale,
          ...(softcap !== undefined && { softcap }),
          ...(window !== undefined && { window }),
          q: commands.upload(q, [H, m, d]),
          keys: commands.upload(k, [G, capacity, d]),
          values: commands.upload(k, [G, capacity, d]),
          positions: commands.upload(
            Uint32Array.from({ length: G * capacity }, (_, i) => i % capacity),
            [G, capacity],
          ),
          lengths: commands.upload(new Uint32Array(G).fill(slots), [G]),
          rows: commands.upload(
            Uint32Array.from({ length: m }, (_, r) => before + r),
            [m, 1],
          ),
        };
        const to = commands.upload(new Float32Array(size * size), [size, size]);
        return [
          encodeStrongest(commands, a, encodeAttention(commands, a, { last: m }), {
            first,
            most,
            above,
            ...(!inside && { mean: { to, row: row0 } }),
          }),
          to,
        ];
      });
      for (let r = 0; r < m; r++) {
        const error = slack(r),
          links = Array.from(
            { length: most },
            (_, i) => [best[2 * (r * most + i)], best[2 * (r * most + i) + 1]] as const,
          ),
          found = links.filter(([, w]) => w > 0),
          limit = inside ? before + r : first;
        const sorted = positions
          .filter((j) => j < limit && mean[r][j] > above * (1 + error))
          .sort((x, y) => mean[r][y] - mean[r][x] || x - y);
        for (const [j, w] of found) {
          // a slot that may be a link, with its weight
          expect(j).toBeLessThan(limit);
          expect(Math.abs(w - mean[r][j])).toBeLessThanOrEqual(error * mean[r][j]);
        }
        expect(found.length).toBeGreaterThanOrEqual(Math.min(most, sorted.length));
        expect(new Set(found.map(([j]) => j)).size).toBe(found.length);
        for (const [i, [j, w]] of found.entries()) {
          // in order: no other is clearly heavier, and of bits that are equal the earlier slot comes first
          if (i > 0) expect(w < found[i - 1][1] || (w === found[i - 1][1] && j > found[i - 1][0])).toBe(true);
          if (i < sorted.length) expect(w).toBeGreaterThanOrEqual(mean[r][sorted[i]] * (1 - 2 * error));
        }
        if (equal && window === undefined && found.length > 0)
          expect(found[0][0], 'the first of seven that repeat').toBeLessThan(7);
      }
      if (inside) return;
      const want = new Float64Array(size * size),
        errors = new Float64Array(size * size);
      for (let r = 0; r < m; r++)
        for (let j = first; j < slots; j++) {
          want[(row0 + r) * size + j - first] = mean[r][j];
          errors[(row0 + r) * size + j - first] = slack(r) * mean[r][j];
        }
      near(own, want, (i) => errors[i], 'means');
    },
    8,
  ),
);
