import { numbers, random } from '@kv/gpu-testing';
import fc from 'fast-check';
import { expect } from 'vitest';
import { columns } from '../src/rows.ts';
import { encodeSample } from '../src/sample.ts';
import { rowsOf } from '../src/index.ts';
import { everywhere, gpuTests, twice } from './device.ts';
import { viewed } from './rows.oracle.ts';
import { drawOf, nucleus } from './sample.oracle.ts';

const gpuTest = await gpuTests();

const cases = fc.record({
  seed: fc.nat(),
  m: fc.constantFrom(0, 1, 3),
  width: fc.oneof(fc.constantFrom(1, 255, 256, 257), fc.integer({ min: 1, max: 2000 })),
  before: fc.constantFrom(0, 3),
  kind: fc.constantFrom('any', 'ties', 'odd'),
  temperature: fc.constantFrom(0.3, 1, 7),
  topK: fc.oneof(fc.constantFrom(0, 0, 1, 5000), fc.nat({ max: 60 })),
  topP: fc.oneof(fc.constant(1), fc.double({ min: 0.01, max: 1, noNaN: true }).map(Math.fround)),
  minP: fc.oneof(fc.constant(0), fc.double({ min: 0, max: 1, noNaN: true })),
  step: fc.nat(),
});

// f32 logits divide and exp within 3 + 2 |x| ULP of |x| <= 87, so each weight is within 2^-15 of itself, sums too
const OFF = 2 ** -14;
gpuTest('a draw falls where its number stands among the masses of what may be drawn', (gpu) =>
  everywhere(
    cases,
    async ({ seed, m, width, before, kind, temperature, topK, topP, minP, step }) => {
      const stride = before + width + 1,
        data = numbers(seed, m * stride, kind === 'any' ? 'any' : 'ties'),
        next = random(seed + 3);
      if (kind === 'odd')
        data.forEach((_, i) => {
          const p = next();
          if (p < 0.3) data[i] = NaN;
          else if (p < 0.5) data[i] = -Infinity;
          else if (p < 0.51) data[i] = 1e30;
        });
      const options = { temperature, topK, topP, minP, seed: seed >>> 1, step };
      const [got] = await twice(gpu, (commands) => [
        encodeSample(commands, columns(rowsOf(commands.upload(data, [m, stride]), stride), before, width), m, options),
      ]);
      for (const [r, row] of viewed(data, m, before, stride, width).entries()) {
        const id = got[r];
        if (row.every(Number.isNaN)) {
          expect(id).toBe(0);
          continue;
        }
        // the nucleus is what it is up to one rounding of its share: the narrower set is in it, and it in the wider
        const [narrow, wide] = [
          nucleus(row, temperature, topK, topP * (1 - OFF), minP * (1 + OFF)),
          nucleus(row, temperature, topK, Math.min(1, topP * (1 + OFF)), minP * (1 - OFF)),
        ];
        expect(wide.places.has(id), `${id} may not be drawn`).toBe(true);
        const upTo = ({ places, weights }: typeof wide, from: number, to: number): number =>
          weights.slice(from, to).reduce((sum, w, i) => sum + (places.has(from + i) ? w : 0), 0);
        const share = drawOf(seed >>> 1, step, r),
          slack = 2 * OFF + (upTo(wide, 0, width) - upTo(narrow, 0, width)) / upTo(narrow, 0, width);
        expect(share).toBeGreaterThanOrEqual(upTo(narrow, 0, id) / upTo(wide, 0, width) - slack);
        expect(share).toBeLessThanOrEqual(upTo(wide, 0, id + 1) / upTo(narrow, 0, width) + slack);
      }
    },
    30,
  ),
);

gpuTest('draws have the probabilities that they should, and no step depends on another', async (gpu) => {
  const logits = [1, 0, 2, 2, -1, 0.5],
    counts = new Float64Array(6),
    DRAWS = 24,
    m = 24,
    { places, weights } = nucleus(logits, 0.8, 5, 0.97, 0.1);
  const drawn = await gpu.scope(async ({ commands, read }) => {
    const x = rowsOf(
      commands.upload(
        Float32Array.from({ length: 6 * m }, (_, i) => logits[i % 6]),
        [m, 6],
      ),
      6,
    );
    return read(
      Array.from({ length: DRAWS }, (_, step) =>
        encodeSample(commands, x, m, { temperature: 0.8, topK: 5, topP: 0.97, minP: 0.1, seed: 11, step }),
      ),
    );
  });
  for (const { data } of drawn) for (const id of data) counts[id]++;
  const all = [...places].reduce((sum, i) => sum + weights[i], 0);
  let chi = 0;
  for (const [i, count] of counts.entries()) {
    const want = places.has(i) ? (DRAWS * m * weights[i]) / all : 0;
    if (want === 0) expect(count, `place ${i}`).toBe(0);
    else chi += (count - want) ** 2 / want;
  }
  expect(chi).toBeLessThan(18.5); // 4 degrees of freedom: one in a thousand is beyond it
  const [again] = await gpu.scope(({ commands, read }) =>
    read([
      encodeSample(commands, rowsOf(commands.upload(Float32Array.from(logits), [1, 6]), 6), 1, {
        temperature: 0.8,
        topK: 5,
        topP: 0.97,
        minP: 0.1,
        seed: 11,
        step: 23,
      }),
    ]),
  );
  expect(again.data[0]).toBe(drawn[23].data[0]);
});

gpuTest('options out of range are refused', (gpu) =>
  gpu.scope(({ commands }) => {
    const x = rowsOf(commands.make([1, 4]), 4);
    for (const [options, sentence] of [
      [{ temperature: 0 }, 'temperature must be a number above 0, got 0'],
      [{ topP: 0 }, 'topP must be above 0 and at most 1'],
      [{ minP: 1.1 }, 'minP must be from 0 to 1, got 1.1'],
      [{ topK: 1.5 }, 'topK must be a whole number from 0'],
      [{ seed: -1 }, 'seed must be a whole number'],
    ] as const)
      expect(() => encodeSample(commands, x, 1, options)).toThrow(sentence);
  }),
);
