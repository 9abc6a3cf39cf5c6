import { expect, test } from 'vitest';
import { cpu, readCpu } from '../src/index.ts';
import { gram, inverse, quadratic, turn } from '@kv/core/shared';
import type { Tensor } from '@kv/core';

const { ops } = cpu;
const put = (shape: readonly number[], f: (i: number) => number): Tensor =>
  ops.from({ data: Float32Array.from({ length: shape.reduce((a, b) => a * b, 1) }, (_, i) => f(i)), shape });
const wave = (i: number): number => Math.sin(i * 1.7 + 1);

test('the inverse of a jittered Gram matrix times it is the unit matrix', () => {
  const d = 5,
    m = ops.kernel(gram, { x: put([2, 9, d], wave), w: put([1, 9], () => 1), c: put([1, d], () => 0) }),
    back = readCpu(ops.kernel(inverse, { m }, { jitter: 0.25 })).data,
    given = readCpu(m).data;
  for (let r = 0; r < 2; r++)
    for (let a = 0; a < d; a++)
      for (let b = 0; b < d; b++) {
        let sum = 0;
        for (let c = 0; c < d; c++)
          sum += (given[r * d * d + a * d + c] + (a === c ? 0.25 : 0)) * back[r * d * d + c * d + b];
        expect(sum).toBeCloseTo(a === b ? 1 : 0, 4);
      }
});
test('a Gram matrix adds up weighed products of what vectors are beyond a centre', () => {
  const [n, d] = [70, 3],
    x = put([2, n, d], (i) => 1000 + wave(i)),
    w = put([4, n], (i) => 1 + wave(i)),
    c = put([1, d], (i) => 1000 + i),
    got = readCpu(ops.kernel(gram, { x, w, c })),
    [vectors, weights] = [readCpu(x).data, readCpu(w).data];
  expect(got.shape).toEqual([4, d, d]);
  for (let r = 0; r < 4; r++)
    for (let a = 0; a < d; a++)
      for (let b = 0; b < d; b++) {
        let sum = 0;
        for (let i = 0; i < n; i++) {
          const at = (Math.floor(r / 2) * n + i) * d;
          sum += weights[r * n + i] * (vectors[at + a] - 1000 - a) * (vectors[at + b] - 1000 - b);
        }
        expect(got.data[(r * d + a) * d + b] / n).toBeCloseTo(sum / n, 5);
      }
});
test('(x - c) M (x - c) of query rows reads the vectors of their KV row', () => {
  const got = readCpu(
    ops.kernel(quadratic, {
      x: put([2, 3, 2], (i) => i),
      m: put([4, 2, 2], (i) => [1, 2, 2, 3][i % 4] * (1 + Math.floor(i / 4))),
      c: put([2, 2], (i) => i),
    }),
  );
  expect(got.shape).toEqual([4, 3]);
  for (let h = 0; h < 4; h++)
    for (let i = 0; i < 3; i++) {
      const g = Math.floor(h / 2),
        off = (g * 3 + i - g) * 2; // of both channels
      expect(got.data[h * 3 + i]).toBeCloseTo((1 + h) * 8 * off * off, 2);
    }
});
test('turned to its position and back a vector is what it was, also under an attention factor', () => {
  const rope = {
    rotary: 4,
    angles: (p: Uint32Array) => {
      const table = (f: (x: number) => number): Float32Array =>
        Float32Array.from({ length: p.length * 2 }, (_, i) => 1.3 * f(p[i >> 1] / (1 + (i % 2))));
      return { cos: table(Math.cos), sin: table(Math.sin) };
    },
  };
  const x = put([4, 3, 5], wave),
    positions = Uint32Array.of(7, 9, 30),
    index = ops.from({ data: Uint32Array.of(0, 1, 2, 2, 0, 1), shape: [2, 3] });
  const there = turn(ops, x, rope, positions, index, false),
    back = readCpu(turn(ops, there, rope, positions, index, true)).data;
  readCpu(x).data.forEach((v, i) => expect(back[i]).toBeCloseTo(v, 5));
  const c = 1.3 * Math.cos(9),
    s = 1.3 * Math.sin(9); // row 0, slot 1 stands at position 9; pair (0, 2)
  expect(readCpu(there).data[5]).toBeCloseTo(wave(5) * c - wave(7) * s, 5);
  expect(turn(ops, x, { ...rope, rotary: 0 }, positions, index, true)).toBe(x);
});
