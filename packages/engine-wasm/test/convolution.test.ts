import { mulberry } from '@kv/core/shared';
import { shortConvolution, type ConvolutionKernel } from '@kv/engine';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { BytecodeWriter } from '../src/bytecode-writer.ts';
import { placeConvolution } from '../src/convolution-code.ts';
import { install, sizesOf } from '../src/install.ts';
import { PassBuffers } from '../src/pass-buffers.ts';
import { nowhere } from '../src/pass-run.ts';
import { copyRows, rowsAt } from '../src/rows.ts';
import { heapStore } from '../src/store.ts';
import { ThreadPool } from '../src/thread-pool.ts';
import { WeightArena } from '../src/weight-arena.ts';
import { modules } from './modules.ts';

const shapes = fc.record({
  seed: fc.integer(),
  channels: fc.integer({ min: 1, max: 70 }),
  length: fc.integer({ min: 1, max: 7 }),
  biased: fc.boolean(),
  rows: fc.integer({ min: 1, max: 20 }),
});

/** Returns a draw of numbers. */
const numbersOf = (seed: number): ((count: number) => Float32Array) => {
  const draw = mulberry(seed);
  return (count) => Float32Array.from({ length: count }, () => 4 * draw() - 2);
};
const kernelOf = (
  numbers: (count: number) => Float32Array,
  { channels, length, biased }: { channels: number; length: number; biased: boolean },
): ConvolutionKernel => ({
  ...{ channels, length, taps: numbers(length * channels) },
  bias: biased ? numbers(channels) : new Float32Array(channels),
});

test('rows divided at any token give those of a float64 program, the state carried over', () => {
  fc.assert(
    fc.property(shapes, fc.nat(), ({ seed, rows, ...shape }, cut) => {
      const { channels: C, length: L } = shape,
        numbers = numbersOf(seed),
        kernel = kernelOf(numbers, shape),
        x = numbers(rows * 3 * C),
        state = new Float32Array((L - 1) * C),
        at = cut % (rows + 1),
        got = [x.subarray(0, at * 3 * C), x.subarray(at * 3 * C)].flatMap((part) => [
          ...shortConvolution(part, kernel, state),
        ]);
      const z = (t: number, c: number): number => (t < 0 ? 0 : x[3 * t * C + c] * x[3 * t * C + 2 * C + c]);
      for (let t = 0; t < rows; t++)
        for (let c = 0; c < C; c++) {
          let sum = kernel.bias[c];
          for (let j = 0; j < L; j++) sum += kernel.taps[j * C + c] * z(t - L + 1 + j, c);
          expect(got[t * C + c]).toBeCloseTo(x[3 * t * C + C + c] * sum, 4);
        }
      for (let j = 0; j < L - 1; j++)
        for (let c = 0; c < C; c++) expect(state[j * C + c]).toBeCloseTo(z(rows - L + 1 + j, c), 5);
    }),
  );
});

test.each(modules)(
  '%s: a tile, a token and tokens of several sequences convolve to the bit as plain loops do',
  async (_, fast) => {
    for (const threads of [1, 2]) {
      const pool = await ThreadPool.start(fast, threads, () => {}),
        store = heapStore(pool),
        angles = { rotary: 0, cos: new Float32Array(0), sin: new Float32Array(0) };
      fc.assert(
        fc.property(shapes, fc.boolean(), ({ seed, rows, ...shape }, apart) => {
          const { channels: C, length: L } = shape,
            numbers = numbersOf(seed),
            kernel = kernelOf(numbers, shape),
            x = numbers(rows * 3 * C),
            before = Array.from({ length: apart ? rows : 1 }, () => numbers((L - 1) * C)),
            states = before.map((state) => {
              const inside = store.createNumbers(state.length);
              inside.set(state);
              return inside;
            });
          const arena = new WeightArena(pool, true),
            code = new BytecodeWriter(sizesOf(pool), rows, apart),
            given = code.stream.value(3 * C, true),
            out = code.convolution(given, placeConvolution(arena, kernel, 0)),
            loaded = install(pool, arena, code),
            buffers = new PassBuffers(pool, false),
            kept = states.map((state) => ({ caches: [], states: [state] })),
            command = { ...buffers.command(loaded, rows, angles, kept[0]), ...nowhere, position: 0 };
          copyRows(x, 3 * C, rowsAt(pool.heap, command, given, rows), rows);
          pool.call({ ...command, ...(apart && rows > 1 && buffers.rows(kept, new Uint32Array(rows))) });
          const want = before.flatMap((state, r) => [
              ...shortConvolution(apart ? x.subarray(r * 3 * C, (r + 1) * 3 * C) : x, kernel, state),
            ]),
            { data, stride } = rowsAt(pool.heap, command, out, rows);
          expect(Array.from({ length: rows }, (_, r) => [...data.subarray(r * stride, r * stride + C)]).flat()).toEqual(
            want,
          );
          expect(states.map((state) => [...state])).toEqual(before.map((state) => [...state]));
          buffers.free();
          arena.free();
          for (const state of states) store.releaseNumbers(state);
        }),
        { numRuns: 40 },
      );
      expect(store.bytes).toBe(0);
      pool.destroy();
    }
  },
);
