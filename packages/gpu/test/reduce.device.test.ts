import type { Ops, Tensor, Reduction } from '@kv/core';
import { gpuTests } from './device.ts';
import { everywhere, exact, same, sums, tensor, ulp } from './differential.ts';
import type { Case, Tolerance } from './differential.ts';

const gpuTest = await gpuTests();
const abs = (ops: Ops, x: Tensor): Tensor => ops.map('abs', x);
/**
 * Sums by n * 2^-24 * Σ|x|. A std is that of numbers below 64, each off by a few ULP: the square root of a small
 * variance keeps their error.
 */
const tolerance = (kind: Reduction, n: number): Tolerance =>
  kind === 'max' || kind === 'min'
    ? exact
    : kind === 'std'
      ? (want, of) => (2 ** -20 * of) / Math.max(1, n) + (n + 8) * ulp(want)
      : sums(kind === 'mean' ? 1 + n / Math.max(1, n) : n);

for (const kind of ['sum', 'mean', 'max', 'min', 'std'] as const)
  gpuTest(`reduce ${kind} over rows, slots and channels; groupRows`, (gpu) =>
    everywhere(
      async (c) => {
        const heads = c.kv * c.group,
          size = { rows: heads, slots: c.slots, channels: c.channels };
        for (const axis of ['rows', 'slots', 'channels'] as const) {
          const x = (ops: Ops): Tensor => tensor(ops, c, [heads, c.slots, c.channels]);
          await same(
            gpu,
            (ops) => ops.reduce(kind, x(ops), axis),
            tolerance(kind, size[axis]),
            (ops) => ops.reduce('sum', abs(ops, x(ops)), axis),
          );
        }
        const x = (ops: Ops): Tensor => tensor(ops, c, [heads, c.slots]);
        await same(
          gpu,
          (ops) => ops.reduce(kind, x(ops), 'slots'),
          tolerance(kind, c.slots),
          (ops) => ops.reduce('sum', abs(ops, x(ops)), 'slots'),
        );
        if (kind !== 'std' && kind !== 'min')
          await same(
            gpu,
            (ops) => ops.groupRows(kind, x(ops), c.kv),
            tolerance(kind, c.group),
            (ops) => ops.groupRows('sum', abs(ops, x(ops)), c.kv),
          );
      },
      { runs: 8 },
    ),
  );

gpuTest('equal numbers have no spread, and NaN stays in a max', async (gpu) => {
  const constant = (ops: Ops): Tensor => ops.from({ data: new Float32Array(3000).fill(0.3), shape: [1, 3000] });
  await same(
    gpu,
    (ops) => ops.reduce('std', constant(ops), 'slots'),
    () => 1e-9,
  );
  await same(
    gpu,
    (ops) => ops.sub(constant(ops), ops.reduce('mean', constant(ops), 'slots')),
    () => 1e-9,
  );
  for (const kind of ['max', 'min', 'sum'] as const)
    for (const axis of ['rows', 'slots'] as const)
      await same(gpu, (ops) => ops.reduce(kind, ops.from({ data: [1, NaN, 3, 4], shape: [2, 2] }), axis));
});

gpuTest('simplex and softmax', (gpu) =>
  everywhere(async (c) => {
    const weights = (ops: Ops): Tensor => tensor(ops, c, [c.kv, c.slots], 'weights');
    await same(
      gpu,
      (ops) => ops.simplex(weights(ops)),
      (want) => c.slots * 2 ** -24 * want + 4 * ulp(want),
    );
    await same(
      gpu,
      (ops) => ops.simplex(ops.mul(weights(ops), 0)),
      (want) => 3 * ulp(want),
    );
    // exp of numbers down to -128: 3 + 2 * 128 ULP, in the term and in the sum
    await same(
      gpu,
      (ops) => ops.softmax(tensor(ops, c, [c.kv, c.slots])),
      (want) => c.slots * 2 ** -24 * want + (8 + 4 * Math.abs(Math.log(Math.max(want, 2 ** -126)))) * ulp(want),
    );
  }),
);

const vectors = (c: Case, ops: Ops): Tensor => tensor(ops, c, [c.kv, c.slots, c.channels], 'any', 11);
gpuTest('matmul over valid slots', (gpu) =>
  everywhere(async (c) => {
    const a = (ops: Ops): Tensor => tensor(ops, { ...c, ragged: c.seed % 2 === 0 }, [c.kv * c.group, c.slots]);
    await same(
      gpu,
      (ops) => ops.matmul(a(ops), vectors(c, ops)),
      sums(c.slots + 2),
      (ops) => ops.matmul(abs(ops, a(ops)), abs(ops, vectors(c, ops))),
    );
  }),
);
gpuTest('matmul of 3,000 slots and 130 channels', async (gpu) => {
  const c = { seed: 5, ragged: false, strided: false };
  const a = (ops: Ops): Tensor => tensor(ops, c, [2, 3000], 'weights'),
    b = (ops: Ops): Tensor => tensor(ops, c, [1, 3000, 130]);
  await same(
    gpu,
    (ops) => ops.matmul(a(ops), b(ops)),
    sums(3000 / 128 + 40),
    (ops) => ops.matmul(a(ops), abs(ops, b(ops))),
  );
});

gpuTest('dot, distance and norms', (gpu) =>
  everywhere(
    async (c) => {
      const q = (ops: Ops): Tensor => tensor(ops, { ...c, ragged: false }, [c.kv * c.group, c.channels]);
      const v = (ops: Ops): Tensor => vectors(c, ops);
      await same(
        gpu,
        (ops) => ops.dot(q(ops), v(ops)),
        sums(c.channels + 2),
        (ops) => ops.dot(abs(ops, q(ops)), abs(ops, v(ops))),
      );
      // half of the relative error of the squares' sum, then the root: 6 ULP
      const root: Tolerance = (want) => (c.channels + 4) * 2 ** -24 * want + 6 * ulp(want);
      await same(gpu, (ops) => ops.distance(q(ops), v(ops)), root);
      await same(gpu, (ops) => ops.norm(v(ops)), root);
      await same(
        gpu,
        (ops) => ops.norm(v(ops), 1),
        sums(c.channels),
        (ops) => ops.norm(v(ops), 1),
      );
    },
    { runs: 12 },
  ),
);
