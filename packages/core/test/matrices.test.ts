import { expect, test } from 'vitest';
import { cpu, readCpu } from '../src/index.ts';
import { covariance, gram, inverse, quadratic, turn } from '../src/shared.ts';
import type { Tensor } from '../src/index.ts';

const { ops } = cpu;
const put = (shape: readonly number[], f: (i: number) => number): Tensor =>
  ops.from({ data: Float32Array.from({ length: shape.reduce((a, b) => a * b, 1) }, (_, i) => f(i)), shape });
const wave = (i: number): number => Math.sin(i * 1.7 + 1);

test('the inverse of a jittered Gram matrix times it is the unit matrix', () => {
  const d = 5,
    m = ops.kernel(gram, { x: put([2, 9, d], wave) }),
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
test('the covariance is the mean product of what vectors are beyond their mean, from the first that counts on', () => {
  const [n, d, skip] = [5, 3, 2],
    x = put([2, n, d], (i) => 1000 + wave(i)),
    given = readCpu(x).data,
    got = readCpu(ops.kernel(covariance, { x }, { skip }));
  expect(got.shape).toEqual([2, d, d]);
  const at = (r: number, i: number, c: number): number => given[(r * n + i) * d + c],
    mean = (of: (i: number) => number): number => (of(2) + of(3) + of(4)) / 3;
  for (let r = 0; r < 2; r++)
    for (let a = 0; a < d; a++)
      for (let b = 0; b < d; b++)
        expect(got.data[(r * d + a) * d + b]).toBeCloseTo(
          mean((i) => (at(r, i, a) - mean((j) => at(r, j, a))) * (at(r, i, b) - mean((j) => at(r, j, b)))),
          5,
        );
  expect([...readCpu(ops.kernel(covariance, { x }, { skip: n })).data]).toEqual(Array(2 * d * d).fill(0));
});
test('x M x of query rows reads the vectors of their KV row', () => {
  const got = readCpu(
    ops.kernel(quadratic, {
      x: put([2, 3, 2], (i) => i),
      m: put([4, 2, 2], (i) => [1, 2, 0, 3][i % 4] * (1 + Math.floor(i / 4))),
    }),
  );
  expect(got.shape).toEqual([4, 3]);
  for (let h = 0; h < 4; h++)
    for (let i = 0; i < 3; i++) {
      const a = (Math.floor(h / 2) * 3 + i) * 2,
        b = a + 1;
      expect(got.data[h * 3 + i]).toBeCloseTo((1 + h) * (a * a + 2 * a * b + 3 * b * b), 2);
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
