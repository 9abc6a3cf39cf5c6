import { numbers, random } from '@kv/gpu-testing';
import fc from 'fast-check';
import { expect } from 'vitest';
import { encodeCompact, encodeEmbedding } from '../src/operations.ts';
import { encodeLinear, rowsOf, uploadMatrix } from '../src/index.ts';
import { everywhere, gpuTests, twice } from './device.ts';
import { embedded, matrixOf, product, type Case } from './products.ts';
import type { Stored } from './weights.oracle.ts';

const gpuTest = await gpuTests();

const plain = fc.constantFrom<Stored>('F32', 'F16', 'BF16'),
  any = fc.oneof(plain, fc.constantFrom<Stored>('Q8_0', 'Q4_0', 'Q4_1'));
const rows = fc.oneof(fc.constantFrom(1, 7, 8, 9, 63, 64, 65), fc.integer({ min: 1, max: 70 }));
const cases = fc.oneof(
  fc.record({
    inputs: fc.oneof(fc.constantFrom(1, 7, 8, 9, 255, 256, 257), fc.integer({ min: 1, max: 90 })),
    parts: fc.array(fc.tuple(plain, rows), { minLength: 1, maxLength: 2 }),
  }),
  fc.record({
    inputs: fc.constantFrom(32, 96, 288),
    parts: fc.array(fc.tuple(any, rows), { minLength: 1, maxLength: 3 }),
  }),
);
const around = fc
  .record({
    seed: fc.nat(),
    m: fc.constantFrom(0, 1, 2, 8, 9, 63, 64, 65),
    before: fc.constantFrom(0, 3, 8),
    after: fc.constantFrom(0, 4),
    ends: fc.constantFrom('', 'br'),
    binding: fc.constantFrom(2 ** 12, 2 ** 30),
  })
  // few variants: software adapters compile them for seconds
  .map(({ ends, ...rest }) => ({ ...rest, bias: ends !== '', residual: ends !== '' }));

gpuTest('products of every form, of few rows and in tiles, in parts that fit a binding', (gpu) =>
  everywhere(fc.tuple(cases, around), ([c, a]) => product(gpu, c, a), 8),
);

gpuTest('a matrix in many bindings gives the bits of one', (gpu) =>
  everywhere(
    fc.tuple(fc.nat(), fc.constantFrom(1, 9)),
    async ([seed, m]) => {
      const parts: Case['parts'] = [
          ['Q8_0', 33],
          ['Q8_0', 7],
          ['F16', 20],
          ['Q4_0', 41],
          ['Q4_1', 23],
        ],
        { matrix } = matrixOf(seed, 96, parts),
        x = numbers(seed, m * 96);
      await product(
        gpu,
        { inputs: 96, parts },
        { seed, m, before: 0, after: 0, bias: false, residual: false, binding: 2 ** 30 },
      );
      const made: number[] = [];
      const results = await Promise.all(
        [2 ** 10, 2 ** 30].map((binding) =>
          gpu.scope(async ({ commands, read }) => {
            const out = commands.make([m, 124]),
              device = uploadMatrix(commands, matrix, binding);
            made.push(device.parts.length);
            encodeLinear(commands, rowsOf(commands.upload(x, [m, 96]), 96), m, device, out);
            return [...(await read([out]))[0].data];
          }),
        ),
      );
      expect(results[0]).toEqual(results[1]);
      expect(made[0]).toBeGreaterThan(10);
      expect(made[1]).toBe(4);
    },
    1,
  ),
);

gpuTest('embedding rows, of several parts', (gpu) =>
  everywhere(fc.tuple(cases, around), ([c, a]) => embedded(gpu, c, a), 10),
);

gpuTest('compaction in place: any 32 bits, any heads, ascending slots', (gpu) =>
  everywhere(
    fc.record({
      seed: fc.nat(),
      rows: fc.integer({ min: 1, max: 3 }),
      group: fc.constantFrom(1, 2),
      capacity: fc.constantFrom(1, 31, 64, 100, 300),
      channels: fc.constantFrom(1, 5, 32, 33, 64),
      share: fc.constantFrom(0, 0.3, 0.9, 1),
    }),
    async ({ seed, rows, group, capacity, channels, share }) => {
      const next = random(seed),
        data = Uint32Array.from({ length: rows * group * capacity * channels }, () => Math.floor(next() * 2 ** 32));
      const kept = Array.from({ length: rows }, () =>
          Array.from({ length: capacity }, (_, i) => i).filter(() => next() < share),
        ),
        flat = new Uint32Array(rows * capacity);
      kept.forEach((list, r) => flat.set(list, r * capacity));
      const most = Math.max(...kept.map(({ length }) => length)),
        shape = [rows * group, most, channels];
      const [got, moved] = await twice(gpu, (commands) => {
        const x = commands.upload(data, [rows * group, capacity, channels]),
          slots = commands.upload(flat, [rows, capacity]),
          counts = commands.upload(
            Uint32Array.from(kept, (list) => list.length),
            [rows],
          ),
          out = commands.upload(new Uint32Array(shape[0] * most * channels), shape);
        encodeCompact(commands, x, slots, counts, { out });
        encodeCompact(commands, x, slots, counts, { most });
        return [x, out];
      });
      const want = data.slice();
      for (let r = 0; r < rows * group; r++)
        kept[Math.floor(r / group)].forEach((slot, i) =>
          want.set(
            data.subarray((r * capacity + slot) * channels, (r * capacity + slot + 1) * channels),
            (r * capacity + i) * channels,
          ),
        );
      expect(got).toEqual(want);
      for (let r = 0; r < rows * group; r++)
        for (let i = 0; i < most * channels; i++)
          expect(moved[r * most * channels + i]).toBe(
            i < kept[Math.floor(r / group)].length * channels ? want[r * capacity * channels + i] : 0,
          );
    },
    12,
  ),
);

gpuTest('a grid beyond 65,535 workgroups, a weight that goes up in several pieces', async (gpu) => {
  const rows = 300_000,
    m = 64 * 65_600,
    w = numbers(1, rows),
    next = random(2),
    ids = Uint32Array.from({ length: m }, () => Math.floor(next() * rows));
  const got = await gpu.scope(async ({ commands, read }) => {
    const matrix = uploadMatrix(
      commands,
      { outputs: rows, inputs: 1, parts: [{ type: 'F32', rows, bytes: new Uint8Array(w.buffer) }] },
      2 ** 30,
    );
    return (await read([encodeEmbedding(commands, commands.upload(ids, [m]), m, matrix, 1).tensor]))[0].data;
  });
  expect(got.findIndex((x, i) => x !== w[ids[i]])).toBe(-1);
});
