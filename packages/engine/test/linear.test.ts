import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import fc from 'fast-check';
import ndarray from 'ndarray';
import ops from 'ndarray-ops';
import { describe, expect, test } from 'vitest';
import { matrixOf } from '@kv/checkpoints';
import { referenceLinear } from '../src/linear/reference.ts';
import { simdLinear } from '../src/linear/simd.ts';
import type { LinearFactory } from '../src/linear/linear.ts';
import { referenceSwiglu, simdSwiglu } from '../src/decoder/gated.ts';
import { rmsNorm, rowsOf } from '../src/decoder/rows.ts';
import { kernelSource } from '../src/simd/kernel-bytes.ts';

const numbers = (length: number): fc.Arbitrary<Float32Array> =>
  fc.float32Array({ minLength: length, maxLength: length, min: -8, max: 8, noNaN: true });

/** Products and, for scale, the sums of absolute products, in float64. */
function oracle(x: Float32Array, w: Float32Array, rows: number, outputs: number, inputs: number): [number, number][] {
  const [a, b] = [ndarray(Float64Array.from(x), [rows, inputs]), ndarray(Float64Array.from(w), [outputs, inputs])];
  return Array.from({ length: rows * outputs }, (_, i) => {
    const products = ndarray(new Float64Array(inputs), [inputs]);
    ops.mul(products, a.pick(Math.floor(i / outputs), null), b.pick(i % outputs, null));
    const sum = ops.sum(products);
    ops.abseq(products);
    return [sum, ops.sum(products)];
  });
}

const factories: [string, LinearFactory][] = [
  ['simd', simdLinear()],
  ['reference', referenceLinear],
];

describe.each(factories)('the %s product', (_, factory) => {
  test('is the float64 product within f32 rounding, for any shape and rows beyond a block', () => {
    const cases = fc
      .record({
        outputs: fc.integer({ min: 1, max: 40 }),
        inputs: fc.integer({ min: 1, max: 40 }),
        rows: fc.constantFrom(0, 1, 2, 3, 4, 5, 7, 63, 64, 65, 130),
      })
      .chain((shape) =>
        fc.record({
          shape: fc.constant(shape),
          w: numbers(shape.outputs * shape.inputs),
          x: numbers(shape.rows * shape.inputs),
        }),
      );
    fc.assert(
      fc.property(cases, ({ shape: { outputs, inputs, rows }, w, x }) => {
        const product = factory(matrixOf(w, outputs, inputs));
        const y = product.apply(x, rows) as Float32Array;
        expect(y.length).toBe(rows * outputs);
        oracle(x, w, rows, outputs, inputs).forEach(([want, size], i) => {
          if (!(Math.abs(y[i] - want) <= 2 ** -20 * size + 2 ** -140)) expect.fail(`at ${i}: ${y[i]} for ${want}`);
        });
        product.destroy();
      }),
      { numRuns: 60 },
    );
  });
});

test.each([
  ['reference', referenceLinear],
  ['simd', simdLinear()],
] as const)('%s: a row gives the same bits whatever rows are beside it', (_, factory) => {
  fc.assert(
    fc.property(
      fc.integer({ min: 1, max: 40 }),
      fc.integer({ min: 1, max: 33 }),
      fc.integer({ min: 1, max: 70 }),
      (outputs, inputs, rows) => {
        const values = (n: number, by: number): Float32Array =>
          Float32Array.from({ length: n }, (_, i) => Math.sin(i * by));
        const product = factory(matrixOf(values(outputs * inputs, 1.3), outputs, inputs)),
          x = values(rows * inputs, 0.7),
          y = product.apply(x, rows) as Float32Array;
        expect(product.rowwise).toBe(true);
        for (let r = 0; r < rows; r++)
          expect(product.apply(x.slice(r * inputs, (r + 1) * inputs), 1)).toEqual(
            y.slice(r * outputs, (r + 1) * outputs),
          );
        product.destroy();
      },
    ),
  );
});

test('simd products share memory, do not see each other, and new ones come after all are destroyed', () => {
  const factory = simdLinear();
  const make = (size: number, value: number) => ({
    value,
    size,
    product: factory(matrixOf(new Float32Array(size * size).fill(value), size, size)),
  });
  for (let round = 0; round < 3; round++) {
    const all = [make(4, 1), make(70, 2), make(9, 3)];
    for (const { product, size, value } of [...all, ...all])
      expect(product.apply(new Float32Array(2 * size).fill(1), 2)).toEqual(
        new Float32Array(2 * size).fill(size * value),
      );
    for (const { product } of [...all, ...all]) product.destroy();
  }
});

test('a weight of more rows than are packed at a time, in several parts', () => {
  const [rows, inputs] = [1100, 6],
    values = Float32Array.from({ length: rows * inputs }, (_, i) => Math.sin(i));
  const part = (from: number, to: number) => ({
    type: 'F32' as const,
    rows: to - from,
    bytes: new Uint8Array(values.buffer, 4 * from * inputs, 4 * (to - from) * inputs),
  });
  const x = Float32Array.from({ length: inputs }, (_, i) => i - 2.5),
    y = simdLinear()({ outputs: rows, inputs, parts: [part(0, 5), part(5, 700), part(700, rows)] }).apply(
      x,
      1,
    ) as Float32Array;
  oracle(x, values, 1, rows, inputs).forEach(([want], i) => expect(Math.abs(y[i] - want)).toBeLessThan(1e-5));
});

test('rmsNorm is x / sqrt(mean(x²) + eps) * gain', () => {
  fc.assert(
    fc.property(
      fc.integer({ min: 1, max: 20 }).chain((width) => fc.tuple(numbers(3 * width), numbers(width))),
      ([x, gain]) => {
        const width = gain.length;
        const rows = ndarray(Float64Array.from(x), [3, width]);
        const out = rmsNorm(rowsOf(x, width), 3, gain, 1e-5);
        for (let r = 0; r < 3; r++) {
          const row = rows.pick(r, null);
          const scale = 1 / Math.sqrt(ops.norm2squared(row) / width + 1e-5);
          for (let i = 0; i < width; i++)
            expect(Math.abs(out[r * width + i] - row.get(i) * scale * gain[i])).toBeLessThanOrEqual(1e-5);
        }
      },
    ),
  );
});

test('swiglu is silu(gate) * up: plain and simd, any width, gates of any size', () => {
  const onKernel = simdSwiglu();
  const gates = fc.oneof(
    fc.double({ min: -200, max: 200, noNaN: true }),
    fc.constantFrom(0, -0, 1e-30, -1e-30, 87, -87, -88, -104, 3e38, -3e38),
  );
  fc.assert(
    fc.property(
      fc.integer({ min: 1, max: 19 }),
      fc.constantFrom(1, 3, 65),
      fc.array(gates, { minLength: 8, maxLength: 64 }),
      (ffn, rows, values) => {
        const gateUp = Float32Array.from({ length: 2 * rows * ffn }, (_, i) =>
          i % (2 * ffn) < ffn ? values[i % values.length] : ((i * 7) % 11) - 5,
        );
        for (const swiglu of [onKernel, referenceSwiglu]) {
          const out = swiglu(gateUp, ffn);
          for (let r = 0; r < rows; r++)
            for (let i = 0; i < ffn; i++) {
              const [gate, up] = [gateUp[2 * r * ffn + i], gateUp[(2 * r + 1) * ffn + i]];
              const want = Math.fround((gate / (1 + Math.exp(-gate))) * up);
              const got = out[r * ffn + i];
              // The kernel's exponential is 0 below -87, where silu is below 1e-36.
              if (!(got === want || Math.abs(got - want) <= 1e-6 * Math.abs(want) + 1e-34))
                expect.fail(`silu(${gate}) * ${up}: ${got} for ${want}`);
            }
        }
      },
    ),
  );
});

test('the kernel was built from its source', () => {
  expect(
    createHash('sha256')
      .update(readFileSync(new URL('../kernel/kernel.ts', import.meta.url)))
      .digest('hex'),
  ).toBe(kernelSource);
});
