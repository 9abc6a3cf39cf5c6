import fc from 'fast-check';
import ndarray from 'ndarray';
import ops from 'ndarray-ops';
import { describe, expect, test } from 'vitest';
import { matrixOf } from '@kv/checkpoints';
import { rmsNorm, referenceEngine } from '@kv/engine';
import type { Engine, Instruction } from '@kv/engine';
import type { Matrix } from '@kv/checkpoints';
import { wasmEngine } from '../src/engine.ts';
import { modules } from './modules.ts';

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

const newest = modules.at(-1)![1], // form 0 is here wherever tests run
  engines: readonly (readonly [name: string, engine: Engine])[] = [
    ['module', wasmEngine(newest, { exact: true })],
    ['plain loops', referenceEngine()],
  ];

type Of<I> = I extends Instruction ? Omit<I, 'x' | 'out'> : never;

/** One instruction as a program: x `[rows, inputs]` to `[rows, outputs]`. */
async function prepared(engine: Engine, instruction: Of<Instruction>, inputs: number, outputs: number) {
  const [x, out] = [
      { id: 0, width: inputs },
      { id: 1, width: outputs },
    ],
    runnable = await engine.prepare({
      name: 'one',
      inputs: [x],
      instructions: [{ ...instruction, x, out } as Instruction],
      outputs: [out],
    });
  return {
    apply: async (x: Float32Array): Promise<Float32Array> => (await runnable.run([x], x.length / inputs))[0],
    destroy: () => runnable.destroy(),
  };
}
const product = (engine: Engine, weight: Matrix) =>
  prepared(engine, { op: 'linear', name: 'w', weight }, weight.inputs, weight.outputs);

describe.each(engines)('on the %s', (_, engine) => {
  test('a product is the float64 product within f32 rounding, for any shape and rows', async () => {
    const cases = fc
      .record({
        outputs: fc.integer({ min: 1, max: 40 }),
        inputs: fc.integer({ min: 1, max: 40 }),
        rows: fc.constantFrom(0, 1, 2, 3, 4, 5, 7, 63, 64, 65, 130, 260),
      })
      .chain((shape) =>
        fc.record({
          shape: fc.constant(shape),
          w: numbers(shape.outputs * shape.inputs),
          x: numbers(shape.rows * shape.inputs),
        }),
      );
    await fc.assert(
      fc.asyncProperty(cases, async ({ shape: { outputs, inputs, rows }, w, x }) => {
        const { apply, destroy } = await product(engine, matrixOf(w, outputs, inputs));
        const y = await apply(x);
        expect(y.length).toBe(rows * outputs);
        oracle(x, w, rows, outputs, inputs).forEach(([want, size], i) => {
          if (!(Math.abs(y[i] - want) <= 2 ** -20 * size + 2 ** -140)) expect.fail(`at ${i}: ${y[i]} for ${want}`);
        });
        destroy();
      }),
      { numRuns: 60 },
    );
  });

  test('silu of gates times ups, any width, gates of any size', async () => {
    const gates = fc.oneof(
      fc.double({ min: -200, max: 200, noNaN: true }),
      fc.constantFrom(0, -0, 1e-30, -1e-30, 87, -87, -88, -104, 3e38, -3e38),
    );
    await fc.assert(
      fc.asyncProperty(
        fc.integer({ min: 1, max: 19 }),
        fc.constantFrom(1, 3, 65),
        fc.array(gates, { minLength: 8, maxLength: 64 }),
        async (ffn, rows, values) => {
          const gateUp = Float32Array.from({ length: 2 * rows * ffn }, (_, i) =>
            i % (2 * ffn) < ffn ? values[i % values.length] : ((i * 7) % 11) - 5,
          );
          const { apply, destroy } = await prepared(engine, { op: 'gated', activation: 'silu' }, 2 * ffn, ffn),
            out = await apply(gateUp);
          destroy();
          for (let r = 0; r < rows; r++)
            for (let i = 0; i < ffn; i++) {
              const [gate, up] = [gateUp[2 * r * ffn + i], gateUp[(2 * r + 1) * ffn + i]];
              const want = Math.fround((gate / (1 + Math.exp(-gate))) * up);
              const got = out[r * ffn + i];
              // The module's exponential is 0 below -87, where silu is below 1e-36.
              if (!(got === want || Math.abs(got - want) <= 1e-6 * Math.abs(want) + 1e-34))
                expect.fail(`silu(${gate}) * ${up}: ${got} for ${want}`);
            }
        },
      ),
    );
  });

  test('products do not see each other, and new ones come after all are destroyed', async () => {
    const make = async (size: number, value: number) => ({
      ...(await product(engine, matrixOf(new Float32Array(size * size).fill(value), size, size))),
      value,
      size,
    });
    for (let round = 0; round < 3; round++) {
      const all = await Promise.all([make(4, 1), make(70, 2), make(9, 3)]);
      for (const { apply, size, value } of [...all, ...all])
        expect(await apply(new Float32Array(2 * size).fill(1))).toEqual(new Float32Array(2 * size).fill(size * value));
      for (const { destroy } of [...all, ...all]) destroy();
    }
  });

  test('a weight of many rows in several parts', async () => {
    const [rows, inputs] = [1100, 6],
      values = Float32Array.from({ length: rows * inputs }, (_, i) => Math.sin(i));
    const part = (from: number, to: number) => ({
      type: 'F32' as const,
      rows: to - from,
      bytes: new Uint8Array(values.buffer, 4 * from * inputs, 4 * (to - from) * inputs),
    });
    const x = Float32Array.from({ length: inputs }, (_, i) => i - 2.5),
      weight = { outputs: rows, inputs, parts: [part(0, 5), part(5, 700), part(700, rows)] },
      { apply, destroy } = await product(engine, weight),
      y = await apply(x);
    destroy();
    oracle(x, values, 1, rows, inputs).forEach(([want], i) => expect(Math.abs(y[i] - want)).toBeLessThan(1e-5));
  });
});

test('rmsNorm is x / sqrt(mean(x²) + eps) * gain', () => {
  fc.assert(
    fc.property(
      fc.integer({ min: 1, max: 20 }).chain((width) => fc.tuple(numbers(3 * width), numbers(width))),
      ([x, gain]) => {
        const width = gain.length;
        const rows = ndarray(Float64Array.from(x), [3, width]);
        const out = rmsNorm(x, gain, 1e-5);
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
