import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { cpu } from '@kv/cpu';
import type { Axis, Binary, Reduction, Tensor, Unary } from '@kv/core';
import { inner } from '@kv/core/shared';
import { agree, lengthsOf } from './agree.ts';
import { dims, nd, rows, size, specs, tensor } from './arrays.ts';
import type { Spec } from './arrays.ts';
import * as oracle from './ops.oracle.ts';
import * as vectors from './vectors.oracle.ts';

const { ops } = cpu;
const prop = <T>(arbitrary: fc.Arbitrary<T>, check: (x: T) => void): void => fc.assert(fc.property(arbitrary, check));
const valid =
  (spec: Spec, count: number = spec.shape[0]) =>
  (r: number): number =>
    oracle.validOf(rows(spec), r, count);
const one = (rank: 2 | 3 = 2): fc.Arbitrary<Spec> =>
  dims.chain(([kv, , n, d]) => specs(rank === 2 ? [kv, n] : [kv, n, d]));

describe('elementwise', () => {
  test.each<Unary>(['exp', 'abs', 'floor'])('%s of any numbers', (kind) =>
    prop(one(3), (s) => agree(ops.map(kind, tensor(s)), oracle.unary(kind, nd(s)))),
  );
  test.each<Unary>(['log', 'log1p', 'sqrt'])('%s of numbers of at least 0', (kind) =>
    prop(
      dims.chain(([kv, , n]) => specs([kv, n], { positive: true })),
      (s) => agree(ops.map(kind, tensor(s)), oracle.unary(kind, nd(s)), { tolerance: 1e-6 }),
    ),
  );

  /**
   * Two operands that broadcast: KV rows against query rows, single rows, slots or channels against many, a missing
   * channel axis.
   */
  const two = dims.chain(([kv, group, n, d]) =>
    fc
      .record({
        axes: fc.tuple(fc.constantFrom(1, kv, kv * group), fc.constantFrom(1, n), fc.constantFrom(1, d)),
        flat: fc.boolean(),
        swap: fc.boolean(),
      })
      .chain(({ axes, flat, swap }) =>
        fc
          .tuple(specs([kv * group, n, d], { dense: true }), specs(flat ? axes.slice(0, 2) : axes, { dense: true }))
          .map(([a, b]) => (swap ? ([b, a] as const) : ([a, b] as const))),
      ),
  );
  test.each<Binary>(['add', 'sub', 'mul', 'div', 'max', 'min', 'less', 'atLeast', 'equal'])('%s, broadcast', (kind) =>
    prop(two, ([a, b]) => {
      const want = oracle.binary(kind, nd(a), nd(b));
      agree(ops.zip(kind, tensor(a), tensor(b)), want);
      if (kind !== 'equal') agree(ops[kind](tensor(a), tensor(b)), want);
    }),
  );
  test('numbers broadcast with everything', () =>
    prop(one(3), (s) => {
      agree(
        ops.sub(2, tensor(s)),
        oracle.binary(
          'sub',
          oracle.each(oracle.zeros([1]), () => 2),
          nd(s),
        ),
      );
      agree(
        ops.div(tensor(s), 4),
        oracle.binary(
          'div',
          nd(s),
          oracle.each(oracle.zeros([1]), () => 4),
        ),
      );
    }));
  test('where takes a where the mask is not 0', () =>
    prop(one(), (s) =>
      agree(
        ops.where(ops.less(tensor(s), 0), -1, tensor(s)),
        oracle.each(oracle.zeros(s.shape), (r, i) => (nd(s).get(r, i) < 0 ? -1 : nd(s).get(r, i))),
      ),
    ));
  test('results are ragged as the operand with the most rows', () => {
    const lengths = (x: readonly number[]) => ops.from({ data: Uint32Array.from(x), shape: [x.length] }, 'u32'),
      zeros = (r: number) => ({ data: new Float32Array(r * 3), shape: [r, 3] });
    expect(
      lengthsOf(ops.add(ops.from(zeros(4), 'f32', lengths([1, 2, 3, 0])), ops.from(zeros(2), 'f32', lengths([3, 3])))),
    ).toEqual([1, 2, 3, 0]);
    expect(lengthsOf(ops.add(ops.from(zeros(4)), ops.from(zeros(2), 'f32', lengths([1, 2]))))).toEqual([1, 1, 2, 2]);
  });
  test('shapes that do not broadcast are an error that names them', () => {
    const x = (shape: number[]) => ops.from({ data: new Float32Array(24), shape });
    expect(() => ops.add(x([2, 3]), x([2, 4]))).toThrow('ops.add: shapes [2,3] and [2,4] do not broadcast');
    expect(() => ops.add(x([3, 2]), x([2, 2]))).toThrow('2 rows do not divide 3 rows');
  });
});

describe('reductions', () => {
  const kinds: readonly Reduction[] = ['sum', 'mean', 'max', 'min', 'std'];
  test.each(kinds.flatMap((kind) => (['slots', 'channels'] as Axis[]).map((axis) => [kind, axis] as const)))(
    '%s over %s, valid ones only',
    (kind, axis) =>
      prop(one(3), (s) =>
        agree(ops.reduce(kind, tensor(s), axis), oracle.reduce(kind, rows(s), axis), {
          tolerance: 1e-6,
          lengths: axis === 'channels' ? valid(s) : undefined,
        }),
      ),
  );
  test.each(kinds)('%s over slots of a plane, with empty rows', (kind) =>
    prop(one(), (s) =>
      agree(ops.reduce(kind, tensor(s), 'slots'), oracle.reduce(kind, rows(s), 'slots'), { tolerance: 1e-6 }),
    ),
  );
  test.each(kinds)('%s over rows', (kind) =>
    prop(
      dims.chain(([kv, , n, d]) => fc.oneof(specs([kv, n, d], { dense: true }), specs([kv, n], { dense: true }))),
      (s) => agree(ops.reduce(kind, tensor(s), 'rows'), oracle.reduce(kind, rows(s), 'rows'), { tolerance: 1e-6 }),
    ),
  );
  test('an empty max is the lowest finite number, an empty min the highest', () => {
    const nothing = ops.from({ data: [], shape: [1, 0] });
    expect(ops.reduce('max', nothing, 'slots')).toMatchObject({ data: Float32Array.of(-3.4028234663852886e38) });
    expect(ops.reduce('min', nothing, 'slots')).toMatchObject({ data: Float32Array.of(3.4028234663852886e38) });
  });
  test.each(['mean', 'max', 'sum'] as const)('groupRows %s', (kind) =>
    prop(
      dims.chain(([kv, group, n]) => fc.tuple(fc.constant(kv), specs([kv * group, n], { dense: true }))),
      ([kv, s]) => agree(ops.groupRows(kind, tensor(s), kv), oracle.groupRows(kind, nd(s), kv), { tolerance: 1e-6 }),
    ),
  );
  test('groupRows of rows that do not divide is an error', () =>
    expect(() => ops.groupRows('mean', ops.from({ data: new Float32Array(6), shape: [3, 2] }), 2)).toThrow(
      '3 rows cannot be grouped into 2',
    ));
});

describe('rows as weights', () => {
  test('simplex', () =>
    prop(
      dims.chain(([kv, , n]) => specs([kv, n], { positive: true })),
      (s) => agree(ops.simplex(tensor(s)), oracle.normalised(rows(s), false), { tolerance: 1e-6, lengths: valid(s) }),
    ));
  test('softmax', () =>
    prop(one(), (s) =>
      agree(ops.softmax(tensor(s)), oracle.normalised(rows(s), true), { tolerance: 1e-6, lengths: valid(s) }),
    ));
  test('a row without mass becomes uniform', () =>
    expect(ops.simplex(ops.from({ data: [0, 0, 0, 0], shape: [1, 4] }))).toMatchObject({
      data: Float32Array.of(0.25, 0.25, 0.25, 0.25),
    }));
  test('softmax does not overflow', () =>
    expect(ops.softmax(ops.from({ data: [1000, 1000], shape: [1, 2] }))).toMatchObject({
      data: Float32Array.of(0.5, 0.5),
    }));
  test('odds are h / (1 - h), finite at 1', () =>
    prop(
      dims.chain(([kv, , n]) => specs([kv, n], { positive: true })),
      (s) => {
        const h = nd(s),
          got = ops.odds(tensor(s));
        agree(
          got,
          oracle.each(oracle.zeros(s.shape), (r, i) => (h.get(r, i) < 1 ? h.get(r, i) / (1 - h.get(r, i)) : 2 ** 24)),
          { tolerance: 1e-6 },
        );
      },
    ));
});

describe('vectors', () => {
  /** `[H, n]` or `[H, d]` with `[G, n, d]`. */
  const pair = (flat: 'slots' | 'channels'): fc.Arbitrary<readonly [Spec, Spec]> =>
    dims.chain(([kv, group, n, d]) =>
      fc.tuple(specs([kv * group, flat === 'slots' ? n : d], { dense: flat === 'channels' }), specs([kv, n, d])),
    );
  test('matmul sums over valid slots, query rows reading their KV head', () =>
    prop(pair('slots'), ([a, b]) =>
      agree(ops.matmul(tensor(a), tensor(b)), vectors.matmul(rows(a), rows(b)), { tolerance: 1e-5 }),
    ));
  test.each([
    [
      [2, 3, 4],
      [2, 3, 4],
    ],
    [
      [2, 3],
      [2, 4, 4],
    ],
    [
      [2, 3],
      [2, 3],
    ],
  ])('matmul of %j and %j is refused', (a, b) => {
    const zeros = (shape: readonly number[]): Tensor =>
      ops.from({ data: new Float32Array(shape.reduce((x, y) => x * y)), shape });
    expect(() => ops.matmul(zeros(a), zeros(b))).toThrow(
      `ops.matmul: expected [r, n] and [r', n, d], got shapes [${a}] and [${b}]`,
    );
  });
  test('dot', () =>
    prop(pair('channels'), ([q, k]) =>
      agree(ops.dot(tensor(q), tensor(k)), vectors.dot(nd(q), nd(k)), {
        tolerance: 1e-5,
        lengths: valid(k, q.shape[0]),
      }),
    ));
  test.each(Array.from({ length: 12 }, (_, n) => n))('an inner product of %i numbers within two arrays', (n) => {
    const a = Float32Array.from({ length: n + 5 }, (_, i) => i * i - 3),
      b = Float32Array.from({ length: n + 5 }, (_, i) => 7 - i),
      of = Array.from({ length: n }, (_, c) => a[2 + c] * b[3 + c]);
    expect(inner(a, 2, b, 3, n)).toBe(of.reduce((sum, x) => sum + x, 0)); // whole numbers
  });
  test('distance', () =>
    prop(pair('channels'), ([q, k]) =>
      agree(ops.distance(tensor(q), tensor(k)), vectors.distance(nd(q), nd(k)), {
        tolerance: 1e-5,
        lengths: valid(k, q.shape[0]),
      }),
    ));
  test.each([1, 2] as const)('norm %i', (p) =>
    prop(one(3), (s) => agree(ops.norm(tensor(s), p), vectors.norm(nd(s), p), { tolerance: 1e-6 })),
  );
  test('scale multiplies each vector', () =>
    prop(
      dims.chain(([kv, , n, d]) => fc.tuple(specs([kv, n, d]), specs([kv, n], { dense: true }))),
      ([x, by]) => agree(ops.scale(tensor(x), tensor(by)), oracle.binary('mul', nd(x), nd(by))),
    ));
  test('channels that disagree are an error', () =>
    prop(size(3), (d) => {
      expect(() =>
        ops.dot(
          ops.from({ data: new Float32Array(d + 1), shape: [1, d + 1] }),
          ops.from({ data: new Float32Array(d), shape: [1, 1, d] }),
        ),
      ).toThrow(`expected ${d} channels`);
    }));
});
