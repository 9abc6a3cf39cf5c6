import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { causalDot, dotWith, gram, inverse, placeInUnit, quadratic, rotateKernel } from '@kv/core/shared';
import { plainProducts } from '@kv/cpu/engine';
import { LOWEST } from '@kv/core';
import type { Ops, Products, Tensor } from '@kv/core';
import { hostOps, readCpu } from '../../src/cpu.ts';
import { createKernel } from '../../src/kernel.ts';
import { simdProducts } from '../../src/simd-kernels.ts';
import { simdVectors } from '../../src/simd.ts';
import { plainVectors, vectors } from '../../src/fastest.ts';
import { numbers, specs, tensor } from './arrays.ts';
import type { Spec } from './arrays.ts';

const kernel = createKernel(),
  simd = kernel && simdVectors(kernel);
const [loops, fast] = [plainVectors, simd ?? plainVectors].map((by) => hostOps(() => by)) as [Ops, Ops];

/** Heads, group, slots and channels: few, or more slots than a block of the kernel takes. */
const sizes = fc.oneof(
  fc.tuple(fc.integer({ min: 1, max: 3 }), fc.integer({ min: 1, max: 3 }), fc.nat(70), fc.integer({ min: 1, max: 40 })),
  fc.tuple(fc.integer({ min: 1, max: 2 }), fc.constant(2), fc.integer({ min: 1, max: 1200 }), fc.constantFrom(64, 65)),
);
const spec = (shape: readonly number[], rows = false): fc.Arbitrary<Spec> => specs(shape, { dense: rows });

/** Asserts that valid entries agree, up to about the last bit of f32. */
function alike(got: Tensor, want: Tensor): void {
  const [a, b] = [readCpu(got), readCpu(want)],
    [rows, slots = 1] = a.shape;
  expect(a.shape).toEqual(b.shape);
  expect(a.lengths).toEqual(b.lengths);
  const width = a.data.length / Math.max(1, rows * slots);
  for (let r = 0; r < rows; r++)
    for (let i = 0; i < Math.min(slots, a.lengths?.[r] ?? slots) * width; i++) {
      const [x, y] = [a.data[r * slots * width + i], b.data[r * slots * width + i]];
      if (!(Object.is(x, y) || x === y || Math.abs(x - y) <= 2 ** -22 * Math.max(1, Math.abs(y))))
        expect.fail(`row ${r}, ${i}: ${x}, expected ${y}`);
    }
}
const both = (run: (ops: Ops) => Tensor): void => alike(run(fast), run(loops));
const prop = <T>(of: fc.Arbitrary<T>, check: (x: T) => void): void => fc.assert(fc.property(of, check), { numRuns: 9 });

describe.skipIf(simd === undefined)('the kernel and the plain loops give the same', () => {
  test('operations of this process are the kernel’s', () => expect(vectors()).not.toBe(plainVectors));
  test('norms', () =>
    prop(
      sizes.chain(([G, , n, d]) => fc.tuple(spec([G, n, d]), fc.constantFrom(1, 2))),
      ([x, p]) => both((ops) => ops.norm(tensor(x), p as 1 | 2)),
    ));
  test('inner products, distances and mixtures', () =>
    prop(
      sizes.chain(([G, R, n, d]) =>
        fc
          .tuple(spec([G * R, d], true), spec([G, n, d]), fc.constantFrom(1, G, G * R))
          .chain(([q, x, rows]) => fc.tuple(fc.constant(q), fc.constant(x), spec([rows, n]))),
      ),
      ([q, x, a]) => {
        both((ops) => ops.dot(tensor(q), tensor(x)));
        both((ops) => ops.distance(tensor(q), tensor(x)));
        both((ops) => ops.matmul(tensor(a), tensor(x)));
      },
    ));
  test('rows together', () =>
    prop(
      sizes.chain(([G, R, n]) => fc.tuple(spec([G * R, n]), fc.constant(G), fc.constantFrom('mean', 'sum', 'max'))),
      ([x, G, kind]) => {
        both((ops) => ops.groupRows(kind as 'mean', tensor(x), G));
        both((ops) => ops.reduce(kind as 'mean', tensor(x), 'rows'));
      },
    ));
  test('pools of any width', () =>
    prop(
      sizes.chain(([G, , n]) =>
        fc.tuple(
          spec([G, n]),
          fc.oneof(fc.nat(40), fc.nat(2 ** 31 - 1)),
          fc.constantFrom('mean' as const, 'max' as const),
          fc.nat(n + 2),
        ),
      ),
      ([x, half, kind, except]) => both((ops) => ops.pool(tensor(x), { kernel: 2 * half + 1, kind, except })),
    ));
  test('shares, also where nothing has mass and where numbers are far apart', () =>
    prop(
      sizes.chain(([G, , n]) => fc.tuple(specs([G, n], { positive: true }), fc.constantFrom(0, 1, 30, 1e30))),
      ([x, by]) => {
        both((ops) => ops.simplex(ops.mul(tensor(x), Math.min(by, 30))));
        both((ops) => ops.softmax(ops.mul(tensor(x), -by)));
      },
    ));
  test('a softmax leaves nothing to what is masked', () =>
    expect(fast.softmax(fast.from({ data: [0, LOWEST, 0], shape: [1, 3] }))).toMatchObject({
      data: Float32Array.of(0.5, 0, 0.5),
    }));
  test('the first bad number', () =>
    prop(
      sizes.chain(([G, , n]) =>
        fc.tuple(spec([G, n]), fc.nat(G * n), fc.constantFrom(0, -1, NaN, Infinity, -Infinity), fc.boolean()),
      ),
      ([x, at, bad, low]) =>
        both((ops) => {
          const t = tensor(x),
            [G = 1, n = 1] = t.shape,
            mask = Float32Array.from({ length: G * n }, (_, i) => Number(i === at));
          const spoiled = ops.where(ops.from({ data: mask, shape: [G, n] }), bad, ops.map('abs', t));
          return low ? ops.firstBad(spoiled) : ops.firstBad(spoiled, 0);
        }),
    ));
  test('numbers by themselves and with others, broadcast, whole numbers among them', () =>
    prop(
      sizes.chain(([G, R, n, d]) => {
        const axes = (rows: readonly number[]) =>
          fc
            .tuple(fc.constantFrom(...rows), fc.constantFrom(1, n), fc.constantFrom(1, d), fc.boolean())
            .chain(([r, s, c, wide]) => spec(wide ? [r, s, c] : [r, s], true));
        return fc.tuple(axes([G * R]), axes([1, G, G * R]), axes([1, G]), fc.boolean());
      }),
      ([x, y, z, whole]) => {
        for (const kind of ['sqrt', 'abs', 'floor', 'exp', 'log', 'log1p'] as const)
          both((ops) => ops.map(kind, ops.add(ops.map('abs', tensor(x)), 0.1)));
        both((ops) => ops.odds(ops.min(ops.map('abs', tensor(x)), 1)));
        for (const kind of ['add', 'sub', 'mul', 'div', 'max', 'min', 'less', 'atLeast', 'equal'] as const)
          both((ops) => {
            const { data, shape } = readCpu(ops.map('floor', ops.map('abs', tensor(y)))),
              own = whole ? ops.from({ data: Uint32Array.from(data), shape }) : tensor(y);
            return ops.add(ops.zip(kind, tensor(x), own), ops.zip(kind, 0.3, tensor(x)));
          });
        both((ops) => ops.where(ops.less(tensor(x), 0), tensor(y), tensor(z)));
        both((ops) => ops.where(ops.less(tensor(z), 0), 0.3, tensor(x)));
      },
    ));
  test('logarithms of numbers of any size, to the bit', () => {
    const data = new Float32Array(Uint32Array.from({ length: 2 ** 16 }, (_, i) => i * 65_537).buffer);
    data.set([1, -1, Infinity, -Infinity, 1e-45]);
    for (const kind of ['log', 'log1p'] as const) {
      const [a, b] = [fast, loops].map((ops) => ops.map(kind, ops.from({ data, shape: [1, data.length] })));
      expect(readCpu(a!).data).toEqual(readCpu(b!).data);
    }
  });
  test('rows folded, looked up, grouped, ranked, and placed in their units', () =>
    prop(
      sizes.chain(([G, R, n]) =>
        fc.tuple(spec([G * R, n]), fc.constant(G), fc.array(fc.nat(6), { minLength: G * n, maxLength: G * n })),
      ),
      ([x, G, numbers]) => {
        const [rows = 1, n = 1] = x.shape;
        const of = (ops: Ops): Tensor => ops.from({ data: Uint32Array.from(numbers), shape: [G, n] });
        for (const kind of ['sum', 'mean', 'max', 'min', 'std'] as const)
          both((ops) => ops.reduce(kind, tensor(x), 'slots'));
        if (n >= 7)
          both((ops) =>
            ops.take(ops.from({ data: readCpu(tensor(x)).data.slice(0, rows * n), shape: [rows, n] }), of(ops)),
          );
        for (const kind of ['sum', 'mean', 'max'] as const)
          both((ops) => ops.groupSlots(kind, tensor(x), of(ops), 7 + 300 * (numbers.length % 2)));
        for (const over of ['row', 'all'] as const) both((ops) => ops.rank(tensor(x), over));
        both((ops) => {
          const units = new Uint32Array(G * n); // a unit begins where the number is 0 or 1
          for (let i = 0; i < units.length; i++) units[i] = i % n === 0 ? 0 : units[i - 1] + Number(numbers[i] < 2);
          return ops.kernel(placeInUnit, { scores: tensor(x), unitOf: ops.from({ data: units, shape: [G, n] }) });
        });
      },
    ));
  test('matrices of vectors, their inverses, and what they make of vectors', () =>
    prop(
      sizes.chain(([G, R, n, d]) =>
        fc.tuple(
          spec([G, n, d]),
          spec([G * R, 2 * d, d], true),
          fc.constantFrom(1, G, G * R).chain((rows) => spec([rows, n], true)),
          fc.constantFrom(1, G).chain((rows) => spec([rows, d], true)),
        ),
      ),
      ([x, many, weights, centre]) => {
        const c = tensor(centre);
        both((ops) =>
          ops.div(ops.kernel(gram, { x: tensor(x), w: tensor(weights), c }), 100 * Math.max(1, x.shape[1])),
        );
        const m = (ops: Ops): Tensor =>
          ops.div(
            ops.kernel(gram, { x: tensor(many), w: ops.fill(ops.norm(tensor(many)), 1), c: ops.fill(c, 0) }),
            many.shape[1],
          );
        both((ops) => ops.div(ops.kernel(quadratic, { x: tensor(x), m: m(ops), c }), 100 * (x.shape[2] ?? 1) ** 2));
        both((ops) => ops.mul(ops.kernel(inverse, { m: m(ops) }, { jitter: 1 }), 0.1));
      },
    ));
  test('vectors turned, and turned back', () =>
    prop(
      sizes.chain(([G, , n, d]) =>
        fc.tuple(spec([G, n, d]), spec([1, 9, Math.max(1, Math.floor(d / 2))], true), fc.constantFrom(1, G), fc.nat(1)),
      ),
      ([x, table, rows, back]) => {
        const [, n = 1, d = 1] = x.shape;
        if (d < 2 || n === 0) return;
        both((ops) => {
          const index = ops.from({ data: Uint32Array.from({ length: rows * n }, (_, i) => i % 11), shape: [rows, n] });
          const [cos, sin] = [ops.add(tensor(table), 5), tensor(table)]; // a cosine that is never 0
          return ops.div(ops.kernel(rotateKernel, { x: tensor(x), cos, sin, index }, { back }), 50); // products sum to 52 at most
        });
      },
    ));
  test('inner products with the one that is named', () =>
    prop(
      sizes.chain(([G, , n, d]) => spec([G, n, d])),
      (x) =>
        both((ops) => {
          const [G = 1, n = 1] = x.shape,
            index = ops.from({ data: Uint32Array.from({ length: G * n }, (_, i) => (i % n) >> 1), shape: [G, n] });
          return ops.kernel(dotWith, { x: tensor(x), index });
        }),
    ));
  test('inner products with the past alone', () =>
    prop(
      sizes.chain(([G, R, n, d]) => fc.tuple(spec([G * R * 3, d], true), spec([G, n, d]), fc.nat(n + 2))),
      ([q, k, first]) =>
        both((ops) => {
          const [G = 1, n = 1] = k.shape,
            p = ops.from({ data: Uint32Array.from({ length: G * n }, (_, i) => i % n), shape: [G, n] });
          return ops.max(ops.kernel(causalDot, { q: tensor(q), k: tensor(k), p }, { block: 3, first }), -1e9);
        }),
    ));
  test('what references of kernels are given for many vectors', () => {
    const fast = simdProducts(kernel!),
      random = (seed: number, n: number): Float32Array => {
        const next = numbers(seed);
        return Float32Array.from({ length: n }, () => next() * 4 - 2);
      };
    prop(
      fc.record({
        rows: fc.oneof(fc.nat(9), fc.integer({ min: 120, max: 140 })),
        n: fc.oneof(fc.nat(20), fc.integer({ min: 500, max: 1100 })),
        d: fc.oneof(fc.integer({ min: 1, max: 20 }), fc.constantFrom(64, 65)),
        seed: fc.nat(1e6),
      }),
      ({ rows, n, d, seed }) => {
        const q = random(seed, rows * d),
          x = random(seed + 1, n * d),
          p = random(seed + 2, rows * n);
        const near = (size: number, run: (by: Products, out: Float32Array) => void, off = 2 ** -22): void => {
          const [a, b] = [fast, plainProducts].map((by) => {
            const out = new Float32Array(size);
            run(by, out);
            return out;
          }) as [Float32Array, Float32Array];
          a.forEach((y, i) => {
            if (!(Math.abs(y - b[i]) <= off * Math.max(1, Math.abs(b[i])))) expect.fail(`${i}: ${y}, ${b[i]}`);
          });
        };
        near(rows * n, (by, out) => by.dots(q, x, d, out));
        near(rows * n, (by, out) => by.distances(q, x, d, out));
        near(n, (by, out) => by.norms(x, d, out));
        near(rows * d, (by, out) => by.mix(p, x, d, out));
        near(rows * n, (by, out) => by.multiply(q, x, d, out));
        const seen = Float32Array.from({ length: rows }, (_, r) => (r * 7 + seed) % (n + 1));
        near(rows * n, (by, out) => by.attend(q, x, d, seen, out));
        near(rows, (by, out) => by.reach(q, x, d, 1, out));
        near(rows, (by, out) => by.reach(q, x, d, 2, out));
        const [a, b] = [fast, plainProducts].map((by) => {
          const places = new Uint32Array(rows);
          by.nearest(q.map(Math.round), x.map(Math.round), d, places); // of whole numbers many products are the same
          return places;
        });
        expect(a).toEqual(b);
        const h = p.map((w) => (w + 2) / 4.5);
        for (const heads of [1, rows])
          if (n > 0) {
            near(heads * n, (by, out) => by.mass(q, x, d, out));
            near(heads * n, (by, out) => by.errors(q, x, d, h, out), 2 ** -16);
          }
      },
    );
  });
  test('what a lookup or a group is beyond is named alike', () => {
    for (const ops of [fast, loops]) {
      const x = ops.from({ data: [1, 2], shape: [1, 2] }),
        far = ops.from({ data: Uint32Array.of(0, 5), shape: [1, 2] });
      expect(() => ops.take(x, far)).toThrow('ops.take: index 5 at row 0, slot 1 must be below 2');
      expect(() => ops.groupSlots('sum', x, far, 3)).toThrow('ops.groupSlots: group 5 of slot 1 must be below 3');
    }
  });
  test('selections, with masks, ties, zeros of both signs and budgets of any size', () =>
    prop(
      sizes.chain(([G, R, n]) =>
        fc.tuple(
          fc.tuple(
            fc.constantFrom(G, G * R).chain((rows) => spec([rows, n])),
            fc.constantFrom(0, 1, 2),
          ),
          fc.option(spec([G, n], true)),
          fc.option(spec([1, n], true)),
          fc.array(fc.oneof(fc.nat(n + 3), fc.constantFrom(-1, 0.5, 1e9, NaN)), { minLength: G * R, maxLength: G * R }),
        ),
      ),
      ([[scores, by], forced, banned, budgets]) =>
        both((ops) => {
          const rows = scores.shape[0],
            mask = (s: Spec | null) => s && ops.less(tensor(s), -2.5);
          return ops.select(
            by === 2 // numbers that differ in their last bits
              ? ops.add(1, ops.mul(tensor(scores), 2 ** -22))
              : ops.mul(ops.map('floor', tensor(scores)), by),
            ops.from({ data: Float32Array.from(budgets.slice(0, rows)), shape: [rows, 1] }),
            { forced: mask(forced) ?? undefined, banned: mask(banned) ?? undefined },
          );
        }),
    ));
});

test('what is asked for last may lie where anything lay before', () => {
  const big = fast.from({ data: new Float32Array(3 * 5000 * 8).fill(1), shape: [3, 5000, 8] }),
    small = fast.from({ data: [1, 2, 3], shape: [1, 3] });
  fast.norm(big);
  expect([...readCpu(fast.pool(small, { kernel: 3, kind: 'mean' })).data]).toEqual([1, 2, Math.fround(5 / 3)]);
});
