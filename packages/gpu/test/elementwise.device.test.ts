import { cpu } from '@kv/cpu';
import type { Ops, Tensor, Binary, Unary } from '@kv/core';
import { expect } from 'vitest';
import { gpuTests } from './device.ts';
import { everywhere, exact, same, tensor, ulp, ulps } from './differential.ts';
import type { Tolerance } from './differential.ts';
import { down, up } from '../src/threshold.ts';

const gpuTest = await gpuTests();

/** WGSL accuracy: + - * rounded correctly up or down, / 2.5 ULP; comparisons and choices are exact. */
const BINARY: Readonly<Record<Binary, Tolerance>> = {
  add: ulps(1),
  sub: ulps(1),
  mul: ulps(1),
  div: ulps(3),
  max: exact,
  min: exact,
  less: exact,
  atLeast: exact,
  equal: exact,
};

for (const kind of Object.keys(BINARY) as Binary[])
  gpuTest(`zip ${kind} over broadcast rows, slots, channels and numbers`, (gpu) =>
    everywhere(
      async (c) => {
        const heads = c.kv * c.group,
          wide = c.seed % 2 === 0;
        const a = (ops: Ops): Tensor => tensor(ops, c, [heads, c.slots], 'ties'),
          b = (ops: Ops): Tensor => tensor(ops, { ...c, ragged: !c.ragged }, [c.kv, c.slots], 'ties', 7);
        const vectors = (ops: Ops): Tensor => tensor(ops, c, [c.kv, c.slots, c.channels], 'any', 3);
        const one = (ops: Ops): Tensor => tensor(ops, { ...c, ragged: false }, [heads, 1], 'any', 5);
        await same(gpu, (ops) => ops.zip(kind, a(ops), wide ? vectors(ops) : one(ops)), BINARY[kind]);
        await same(
          gpu,
          (ops) => ops[kind === 'equal' ? 'less' : kind](b(ops), ops.add(ops.map('abs', a(ops)), 1)),
          BINARY[kind],
        );
        await same(gpu, (ops) => ops.zip(kind, 0.75, wide ? vectors(ops) : one(ops)), BINARY[kind]);
      },
      { runs: 6 },
    ),
  );

/**
 * exp 3 + 2|x| ULP; log 3 ULP, within 2^-21 on [0.5, 2]; sqrt as 1 / inverseSqrt; log1p as log beyond 1/2, else a
 * quotient and a series.
 */
const UNARY: Readonly<Record<Unary, (x: number) => number>> = {
  exp: (x) => (3 + 2 * Math.abs(x)) * ulp(Math.exp(x)),
  log: (x) => (x >= 0.5 && x <= 2 ? 2 ** -21 : 3 * ulp(Math.log(x))) + ulp(Math.log(x)),
  log1p: (x) =>
    Math.abs(x) < 0.5 ? 7 * ulp(Math.log1p(x)) : (1 + x <= 2 ? 2 ** -21 : 4 * ulp(Math.log1p(x))) + 2 ** -24,
  sqrt: (x) => 6 * ulp(Math.sqrt(x)),
  abs: () => 0,
  floor: () => 0,
};
for (const kind of Object.keys(UNARY) as Unary[])
  gpuTest(`map ${kind}`, (gpu) =>
    everywhere(async (c) => {
      const x = (ops: Ops): Tensor => {
        const any = tensor(ops, c, [c.kv, c.slots]);
        return kind === 'log' || kind === 'sqrt' ? ops.map('abs', any) : kind === 'log1p' ? ops.max(any, -0.99) : any;
      };
      await same(
        gpu,
        (ops) => ops.map(kind, x(ops)),
        (_, of) => UNARY[kind](of),
        x,
      );
    }),
  );

gpuTest('log1p and odds keep small numbers', async (gpu) => {
  const data = [0, 1e-30, -1e-30, 1e-8, 1e-4, -1e-4, 0.49, -0.49, 0.5, -0.5, 3, 1e30];
  const x = (ops: Ops): Tensor => ops.from({ data, shape: [1, data.length] });
  await same(
    gpu,
    (ops) => ops.map('log1p', x(ops)),
    (_, of) => UNARY.log1p(of),
    x,
  );
  const h = (ops: Ops): Tensor => ops.from({ data: [0, 1e-20, 0.1, 0.5, 0.999, 1 - 2 ** -24, 1], shape: [1, 7] });
  await same(gpu, (ops) => ops.odds(h(ops)), ulps(5));
});

gpuTest('edges of the domain come out as on the CPU, for the checks that follow', async (gpu) => {
  const x = (ops: Ops): Tensor => ops.from({ data: [0, -0, -1, Infinity, NaN, 4], shape: [1, 6] });
  await same(gpu, (ops) => ops.log(x(ops)), ulps(4));
  await same(gpu, (ops) => ops.map('sqrt', x(ops)), ulps(6));
  await same(gpu, (ops) => ops.map('log1p', ops.sub(x(ops), 1)), ulps(4));
  await same(gpu, (ops) => ops.firstBad(ops.add(x(ops), 1)));
});

gpuTest('where, fill, scale, odds, exp, log', (gpu) =>
  everywhere(
    async (c) => {
      const heads = c.kv * c.group;
      const x = (ops: Ops): Tensor => tensor(ops, c, [heads, c.slots]),
        mask = (ops: Ops): Tensor => ops.less(tensor(ops, { ...c, ragged: false }, [c.kv, c.slots], 'any', 4), 0);
      await same(gpu, (ops) => ops.where(mask(ops), x(ops), 2.5));
      await same(gpu, (ops) => ops.where(x(ops), 1, mask(ops)));
      await same(gpu, (ops) => ops.fill(x(ops), -3.25));
      await same(
        gpu,
        (ops) => ops.scale(tensor(ops, c, [c.kv, c.slots, c.channels]), tensor(ops, c, [c.kv, c.slots], 'any', 2)),
        ulps(1),
      );
      await same(
        gpu,
        (ops) => ops.odds(ops.simplex(tensor(ops, { ...c, ragged: false }, [c.kv, c.slots + 1], 'weights'))),
        (want) => 12 * ulp(want) * (1 + want) + 2 ** -20 * want,
      );
      await same(
        gpu,
        (ops) => ops.exp(ops.sub(tensor(ops, c, [c.kv, c.slots]), 1)),
        (want) => (3 + 2 * Math.abs(Math.log(want))) * ulp(want) + 2 ** -22 * want,
      );
      await same(gpu, (ops) => ops.log(ops.add(ops.map('abs', x(ops)), 3)), ulps(4));
    },
    { runs: 10 },
  ),
);

gpuTest('u32 operands are read as numbers', async (gpu) => {
  const p = (ops: Ops): Tensor => ops.from({ data: Uint32Array.of(0, 1, 5, 70_000, 16_777_216), shape: [1, 5] });
  await same(gpu, (ops) => ops.less(p(ops), 5));
  await same(gpu, (ops) => ops.sub(p(ops), 10), ulps(1));
  await same(gpu, (ops) => ops.map('floor', p(ops)));
  await same(gpu, (ops) => ops.zip('equal', p(ops), 5));
});

gpuTest('comparisons with numbers that f32 does not hold decide as in float64', async (gpu) => {
  for (const c of [0.1, 0.7, -0.1, -0.7, 1e-50, -1e-50, 0, 1]) {
    const near = [Math.fround(c), up(c), down(c), 0, -0, 1, -1];
    expect(up(c)).toBeGreaterThanOrEqual(c);
    expect(down(c)).toBeLessThanOrEqual(c);
    const x = (ops: Ops): Tensor =>
      ops.from({ data: near.map((n) => (Math.abs(n) < 2 ** -126 && n !== 0 ? 0 : n)), shape: [1, 7] });
    for (const kind of ['less', 'atLeast', 'equal'] as const) {
      await same(gpu, (ops) => ops.zip(kind, x(ops), c));
      await same(gpu, (ops) => ops.zip(kind, c, x(ops)));
    }
  }
});

gpuTest('a grid beyond 65,535 workgroups reaches every element', async (gpu) => {
  const size = 65_535 * 256 + 4097;
  const data = await gpu.scope(async ({ ops, read }) => {
    const ones = ops.fill(ops.from({ data: [0], shape: [1, 1] }), 1);
    const wide = ops.kernel(
      {
        id: 'count',
        inputs: { one: 'f32' },
        params: { size: 'u32' },
        output: { dtype: 'f32', shape: () => [1, size] },
        per: 'element',
        wgsl: 'fn run(index: u32) { output[index] = f32(index % 1000u) + one[0]; }',
        ref: () => undefined,
      },
      { one: ones },
      { size },
    );
    return (await read([ops.add(wide, 1)]))[0].data;
  });
  expect(data.length).toBe(size);
  expect(data.findIndex((x, i) => x !== (i % 1000) + 2)).toBe(-1);
});

gpuTest('shapes that do not fit are refused as on the CPU', async (gpu) => {
  for (const ops of [gpu.ops, cpu.ops]) {
    const x = ops.from({ data: new Float32Array(6), shape: [2, 3] });
    expect(() => ops.add(x, ops.from({ data: new Float32Array(8), shape: [2, 4] }))).toThrow('do not broadcast');
    expect(() => ops.add(x, ops.from({ data: new Float32Array(9), shape: [3, 3] }))).toThrow('do not divide');
    expect(() => ops.add(1, 2)).toThrow('at least one tensor');
    expect(() => ops.from({ data: [1], shape: [2] })).toThrow('needs 2 numbers');
    const keys = ops.from({ data: new Float32Array(24), shape: [2, 3, 4] });
    expect(() => ops.matmul(keys, keys)).toThrow(
      "ops.matmul: expected [r, n] and [r', n, d], got shapes [2,3,4] and [2,3,4]",
    );
  }
});
