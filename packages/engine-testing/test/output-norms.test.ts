import fc from 'fast-check';
import { cpu } from '@kv/cpu';
import { expect, test } from 'vitest';
import { floats, outputNorms } from '@kv/engine';
import { mulberry } from '@kv/core/shared';
import { cases } from '../src/attention-cases.ts';

test.each([1, 2] as const)('output norms, p = %i, are those of float64 products, in ragged caches too', async (p) => {
  await fc.assert(
    fc.asyncProperty(cases, fc.integer({ min: 1, max: 40 }), fc.nat(), async ({ cache, H, n }, D, seed) => {
      const { headDim: d, heads: G, capacity, lengths } = cache,
        values = floats(cache.values.codes),
        random = mulberry(seed),
        weight = Float32Array.from({ length: D * H * d }, () => random() - 0.5),
        held = { data: values, shape: [G, n, d], stride: [capacity * d, d, 1] },
        made = cpu.ops.kernel(
          outputNorms,
          {
            values: cpu.ops.from(held, 'f32', cpu.ops.from({ data: lengths.slice(), shape: [G] }, 'u32')),
            weight: cpu.ops.from({ data: weight, shape: [D, H * d] }),
          },
          { p },
        ),
        [{ data: got }] = await cpu.read([made]);
      for (let h = 0; h < H; h++)
        for (let i = 0; i < n; i++) {
          const g = Math.floor((h * G) / H),
            v = values.subarray((g * capacity + i) * d, (g * capacity + i + 1) * d);
          let [want, size] = [0, 0];
          if (i < lengths[g])
            for (let j = 0; j < D; j++) {
              let y = 0;
              for (let c = 0; c < d; c++) {
                y += weight[j * H * d + h * d + c] * v[c];
                size += Math.abs(weight[j * H * d + h * d + c] * v[c]);
              }
              want = p === 1 ? want + Math.abs(y) : Math.hypot(want, y);
            }
          expect(Math.abs(got[h * n + i] - want)).toBeLessThanOrEqual(1e-6 * size);
        }
    }),
    { numRuns: 60 },
  );
});
