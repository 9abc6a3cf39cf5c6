import type { Tensor } from '@kv/core';
import type { Commands } from '@kv/gpu';
import { numbers, random } from '@kv/gpu-testing';
import fc from 'fast-check';
import { expect } from 'vitest';
import { encodeAppend, encodeOutputNorms, encodeRest, encodeSlots } from '../src/operations.ts';
import { uploadMatrix } from '../src/index.ts';
import { everywhere, gpuTests, near, twice } from './device.ts';
import { matrixOf } from './products.ts';

const gpuTest = await gpuTests();

/** Words of any bits: NaN, infinities, subnormals and both zeros among them. */
function words(seed: number, count: number): Uint32Array {
  const next = random(seed),
    odd = [0x7fc0_0001, 0xff80_0000, 1, 0x8000_0000, 0];
  return Uint32Array.from({ length: count }, () =>
    next() < 0.2 ? odd[Math.floor(next() * odd.length)] : Math.floor(next() * 2 ** 32),
  );
}
const sizes = fc.constantFrom(0, 1, 2, 3, 63, 64, 65);

gpuTest('new slots go after what each head holds, and lengths follow', (gpu) =>
  everywhere(
    fc.record({
      seed: fc.nat(),
      heads: fc.constantFrom(1, 2, 5),
      m: sizes,
      size: fc.constantFrom(1, 4, 12),
      room: fc.nat({ max: 3 }),
      most: sizes,
    }),
    async ({ seed, heads, m, size, room, most }) => {
      const next = random(seed),
        counts = Array.from({ length: heads }, () => Math.floor(next() * (most + 1))),
        capacity = Math.max(...counts) + m + room;
      const before = {
        keys: words(seed + 1, heads * capacity * size),
        values: words(seed + 2, heads * capacity * size),
        positions: words(seed + 3, heads * capacity),
      };
      const k = words(seed + 4, heads * m * size),
        v = words(seed + 5, heads * m * size),
        added = Uint32Array.from({ length: m }, (_, i) => 1000 + 3 * i);
      const want = { keys: before.keys.slice(), values: before.values.slice(), positions: before.positions.slice() };
      for (let g = 0; g < heads; g++)
        for (let i = 0; i < m; i++) {
          const slot = g * capacity + counts[g] + i,
            from = (g * m + i) * size;
          want.keys.set(k.subarray(from, from + size), slot * size);
          want.values.set(v.subarray(from, from + size), slot * size);
          want.positions[slot] = added[i];
        }
      const got = await twice(gpu, (commands: Commands): readonly Tensor[] => {
        const cache = {
          headDim: size,
          keys: commands.upload(before.keys, [heads, capacity, size]),
          values: commands.upload(before.values, [heads, capacity, size]),
          positions: commands.upload(before.positions, [heads, capacity]),
          lengths: commands.upload(Uint32Array.from(counts), [heads]),
        };
        const lengths = commands.make([heads], 'u32');
        encodeAppend(
          commands,
          cache,
          commands.upload(k, [heads, m, size]),
          commands.upload(v, [heads, m, size]),
          commands.upload(added, [m]),
          lengths,
        );
        return m === 0
          ? [cache.keys, cache.values, cache.positions]
          : [cache.keys, cache.values, cache.positions, lengths];
      });
      expect(got).toEqual([
        want.keys,
        want.values,
        want.positions,
        ...(m === 0 ? [] : [Uint32Array.from(counts, (n) => n + m)]),
      ]);
    },
    10,
  ),
);

gpuTest('slots of every row go from any place to any place, round the ends of both', (gpu) =>
  everywhere(
    fc.record({
      seed: fc.nat(),
      rows: fc.constantFrom(1, 2, 7),
      size: fc.constantFrom(1, 5, 64, 65),
      out: fc.constantFrom(1, 5, 64, 65),
      channels: fc.constantFrom(0, 1, 3, 16),
      part: fc.double({ min: 0, max: 1, noNaN: true }),
      first: fc.nat({ max: 200 }),
      to: fc.nat({ max: 200 }),
    }),
    async ({ seed, rows, size, out, channels, part, first, to }) => {
      const count = Math.floor(part * Math.min(size, out)),
        x = words(seed, rows * size * channels),
        before = words(seed + 1, rows * out * channels),
        want = before.slice();
      for (let r = 0; r < rows; r++)
        for (let i = 0; i < count; i++)
          for (let c = 0; c < channels; c++)
            want[(r * out + ((to + i) % out)) * channels + c] = x[(r * size + ((first + i) % size)) * channels + c];
      const [got] = await twice(gpu, (commands) => {
        const data = commands.upload(before, [rows, out, channels]);
        encodeSlots(commands, commands.upload(x, [rows, size, channels]), data, count, first, to);
        return [data];
      });
      expect(got).toEqual(want);
    },
    10,
  ),
);

gpuTest('what follows the slots in use becomes a value that was not written', (gpu) =>
  everywhere(
    fc.record({
      seed: fc.nat(),
      heads: fc.constantFrom(1, 2, 3),
      group: fc.constantFrom(1, 4),
      capacity: sizes,
      value: fc.constantFrom(0, -1.5, Infinity),
    }),
    async ({ seed, heads, group, capacity, value }) => {
      const next = random(seed),
        counts = Uint32Array.from({ length: heads }, () => Math.floor(next() * (capacity + 1))),
        rows = heads * group,
        before = words(seed, rows * capacity),
        want = before.slice(),
        [bits] = new Uint32Array(Float32Array.of(value).buffer);
      for (let r = 0; r < rows; r++) want.fill(bits, r * capacity + counts[Math.floor(r / group)], (r + 1) * capacity);
      const [got] = await twice(gpu, (commands) => {
        const data = commands.upload(before, [rows, capacity]);
        encodeRest(commands, data, commands.upload(counts, [heads]), value);
        return [data];
      });
      expect(got).toEqual(want);
    },
    8,
  ),
);

gpuTest('what values add to the output through each query head, of weights in several parts', (gpu) =>
  everywhere(
    fc.record({
      seed: fc.nat(),
      d: fc.constantFrom(8, 12, 16),
      kvHeads: fc.constantFrom(1, 2),
      fold: fc.constantFrom(1, 2),
      room: fc.nat({ max: 2 }),
      slots: fc.constantFrom(0, 1, 7, 8, 9, 17),
      p: fc.constantFrom(1 as const, 2 as const),
    }),
    async ({ seed, d, kvHeads, fold, room, slots, p }) => {
      const heads = d === 12 ? 8 : 4 * fold,
        inputs = heads * d,
        capacity = slots + room,
        { matrix, numbers: w } = matrixOf(seed, inputs, [
          ['F32', 3],
          ['Q8_0', 65],
          ['F16', 2],
        ]),
        D = matrix.outputs;
      const next = random(seed),
        values = numbers(seed + 1, kvHeads * capacity * d),
        lengths = Uint32Array.from({ length: kvHeads }, (_, g) => (g === 0 ? slots : Math.floor(next() * (slots + 1)))),
        want: number[] = [],
        sizes: number[] = [];
      for (let h = 0; h < heads; h++)
        for (let i = 0; i < slots; i++) {
          const g = Math.floor((h * kvHeads) / heads);
          let [total, size] = [0, 0];
          for (let o = 0; o < D && i < lengths[g]; o++) {
            const terms = Array.from(
              { length: d },
              (_, c) => w[o * inputs + h * d + c] * values[(g * capacity + i) * d + c],
            );
            const most = terms.reduce((a, b) => a + Math.abs(b), 0);
            total += Math.abs(terms.reduce((a, b) => a + b, 0)) ** p;
            size += p * most ** p;
          }
          want.push(total);
          sizes.push(size);
        }
      const [got] = await twice(gpu, (commands) => [
        encodeOutputNorms(
          commands,
          {
            headDim: d,
            values: commands.upload(values, [kvHeads, capacity, d]),
            lengths: commands.upload(lengths, [kvHeads]),
          },
          uploadMatrix(commands, matrix, 2 ** 12),
          slots,
          p,
        ),
      ]);
      near(got, want, (at) => (d + D + 8) * 2 ** -24 * sizes[at]);
    },
    8,
  ),
);
