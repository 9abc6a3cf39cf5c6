import fc from 'fast-check';
import ndarray from 'ndarray';
import { expect, test } from 'vitest';
import { layerMean } from '@kv/core';
import { cpu, readCpu } from '@kv/cpu';
import { numbers } from '../ops/arrays.ts';
import { agree, lengthsOf } from '../ops/agree.ts';
import { at } from './engine.ts';
import * as oracle from './layer-mean.oracle.ts';

const { ops } = cpu;
const cases = fc.record({
  heads: fc.integer({ min: 1, max: 4 }),
  group: fc.integer({ min: 1, max: 3 }),
  slots: fc.integer({ min: 1, max: 8 }),
  seed: fc.nat(2 ** 30),
});
test('heads that hold different tokens: each position over the heads that hold it', () =>
  fc.assert(
    fc.property(cases, ({ heads, group, slots, seed }) => {
      const next = numbers(seed),
        lengths = Array.from({ length: heads }, () => 1 + Math.floor(next() * slots));
      const positions = Uint32Array.from(
        lengths.flatMap((n) => {
          const some = Array.from({ length: slots + 3 }, (_, p) => [next(), p] as const)
            .sort((a, b) => a[0] - b[0])
            .slice(0, n)
            .map(([, p]) => p)
            .sort((a, b) => a - b);
          return [...some, ...new Array<number>(slots - n).fill(0)];
        }),
      );
      const x = Float32Array.from({ length: heads * group * slots }, next),
        ragged = (rows: number) =>
          ops.from(
            {
              data: Uint32Array.from({ length: rows }, (_, r) => lengths[Math.floor((r * heads) / rows)]),
              shape: [rows],
            },
            'u32',
          );
      const got = layerMean(
        {
          ops,
          at: at({ aligned: false }),
          positions: ops.from({ data: positions, shape: [heads, slots] }, 'u32', ragged(heads)),
        },
        ops.from({ data: x, shape: [heads * group, slots] }, 'f32', ragged(heads * group)),
      );
      if (heads * group === 1) return;
      agree(got, oracle.layerMean(ndarray(x, [heads * group, slots]), ndarray(positions, [heads, slots]), lengths), {
        tolerance: 1e-6,
        lengths: (r) => lengths[r],
      });
      expect(lengthsOf(got)).toEqual(lengths);
    }),
  ));
test('aligned heads: one row, the mean over all of them', () =>
  fc.assert(
    fc.property(cases, ({ heads, group, slots, seed }) => {
      const rows = heads * group,
        next = numbers(seed),
        x = Float32Array.from({ length: rows * slots }, next),
        positions = Uint32Array.from({ length: heads * slots }, (_, i) => i % slots);
      const got = layerMean(
        { ops, at: at(), positions: ops.from({ data: positions, shape: [heads, slots] }) },
        ops.from({ data: x, shape: [rows, slots] }),
      );
      const each = oracle.layerMean(
        ndarray(x, [rows, slots]),
        ndarray(positions, [heads, slots]),
        new Array<number>(heads).fill(slots),
      );
      agree(got, each.hi(1), { tolerance: 1e-6 });
    }),
  ));
test('a layer row is its own mean', () => {
  const x = ops.from({ data: [1, 2], shape: [1, 2] });
  expect(readCpu(layerMean({ ops, at: at({ aligned: false }), positions: x }, x))).toEqual(readCpu(x));
});
