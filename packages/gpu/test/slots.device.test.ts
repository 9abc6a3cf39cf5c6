import type { Ops, Tensor } from '@kv/core';
import fc from 'fast-check';
import { gpuTests } from './device.ts';
import { everywhere, exact, indices, same, sums, tensor } from './differential.ts';

const gpuTest = await gpuTests();

gpuTest('pool', (gpu) =>
  everywhere(async (c) => {
    const kernel = c.seed % 5 === 4 ? 2 ** 32 - 1 : 1 + 2 * (c.seed % 5),
      except = c.seed % 3 === 0 ? 0 : c.seed % 70;
    const x = (ops: Ops): Tensor => tensor(ops, c, [c.kv, c.slots]);
    await same(
      gpu,
      (ops) => ops.pool(x(ops), { kernel, kind: 'mean', except }),
      sums(Math.min(kernel, 2 * c.slots) + 2),
      (ops) => ops.pool(ops.map('abs', x(ops)), { kernel, kind: 'mean', except }),
    );
    await same(gpu, (ops) => ops.pool(x(ops), { kernel, kind: 'max', except }));
  }),
);

gpuTest('lastSlots and mark', (gpu) =>
  everywhere(async (c) => {
    const x = (ops: Ops): Tensor => tensor(ops, c, [c.kv * c.group, c.slots], 'ties');
    await same(gpu, (ops) => ops.lastSlots(x(ops), c.seed % 40));
    await same(gpu, (ops) => ops.lastSlots(tensor(ops, c, [c.kv, c.slots, c.channels]), 3));
    await same(gpu, (ops) =>
      ops.mark(
        ops.select(
          tensor(ops, c, [c.kv, c.slots]),
          ops.fill(ops.from({ data: new Float32Array(c.kv), shape: [c.kv, 1] }), c.seed % 90),
        ),
        x(ops),
      ),
    );
  }),
);

gpuTest('take of numbers, vectors and whole numbers', (gpu) =>
  everywhere(async (c) => {
    const size = 1 + (c.seed % 50),
      dense = { ...c, ragged: false };
    const index = (ops: Ops): Tensor => indices(ops, c, [c.kv * c.group, c.slots], size);
    await same(gpu, (ops) => ops.take(tensor(ops, dense, [c.kv, size]), index(ops)));
    await same(gpu, (ops) => ops.take(tensor(ops, dense, [1, size, c.channels]), index(ops)));
    await same(gpu, (ops) => ops.take(indices(ops, dense, [c.kv, size], 4_000_000_000), index(ops)));
  }),
);

gpuTest('an index beyond the table gives NaN, which the check after it finds', async (gpu) => {
  const [bad] = await gpu.scope(({ ops, read }) =>
    read([
      ops.firstBad(
        ops.take(ops.from({ data: [1, 2], shape: [1, 2] }), ops.from({ data: Uint32Array.of(1, 2, 0), shape: [1, 3] })),
      ),
    ]),
  );
  if (bad.data[0] !== 2) throw new Error(`expected the second entry, got ${bad.data[0]}`);
});

for (const kind of ['mean', 'sum', 'max'] as const)
  gpuTest(`groupSlots ${kind}, sorted or not, with empty groups`, (gpu) =>
    everywhere(
      async (c) => {
        const count = 1 + (c.seed % 400);
        const groups = (ops: Ops): Tensor => indices(ops, c, [c.kv, c.slots], count, c.strided);
        const x = (ops: Ops): Tensor => tensor(ops, c, [c.kv * c.group, c.slots]);
        await same(
          gpu,
          (ops) => ops.groupSlots(kind, x(ops), groups(ops), count),
          kind === 'max' ? exact : sums(c.slots),
          (ops) => ops.groupSlots(kind, ops.map('abs', x(ops)), groups(ops), count),
        );
      },
      { runs: 12 },
    ),
  );

gpuTest('firstBad finds NaN, infinities and what is below a bound, by bits', (gpu) =>
  everywhere(
    async (c) => {
      const special = [NaN, Infinity, -Infinity, 1e-45, -1e-45, -0, -1e-3][c.seed % 7],
        at = c.seed % Math.max(1, c.kv * c.slots);
      const x = (ops: Ops): Tensor => {
        const base = tensor(ops, { ...c, strided: false }, [c.kv, c.slots], 'weights');
        if (c.kv * c.slots === 0) return base;
        const bits = new Float32Array(c.kv * c.slots).map((_, i) => (i === at ? special : i / 7));
        return ops.from({ data: bits, shape: [c.kv, c.slots] }, 'f32', base.lengths);
      };
      await same(gpu, (ops) => ops.firstBad(x(ops)));
      await same(gpu, (ops) => ops.firstBad(x(ops), 0));
      await same(gpu, (ops) => ops.firstBad(x(ops), 0.3));
    },
    { runs: 40 },
  ),
);

gpuTest('reshape and lengths without copies', (gpu) =>
  everywhere(
    async (c) => {
      const x = (ops: Ops): Tensor => tensor(ops, { ...c, ragged: false }, [c.kv, c.slots]);
      await same(gpu, (ops) => ops.reshape(x(ops), [1, c.kv * c.slots]));
      await same(gpu, (ops) => ops.reduce('max', ops.reshape(x(ops), [c.slots * c.kv, 1]), 'rows'));
    },
    { runs: 10 },
  ),
);

gpuTest('rank within rows and over all', (gpu) =>
  everywhere(
    async (c) => {
      const x = (ops: Ops): Tensor => tensor(ops, c, [c.kv, c.slots], c.seed % 2 === 0 ? 'ties' : 'any');
      await same(gpu, (ops) => ops.rank(x(ops), 'row'));
      await same(gpu, (ops) => ops.rank(x(ops), 'all'));
    },
    { runs: 8, slots: fc.oneof(fc.constantFrom(0, 1, 511, 512, 513), fc.integer({ min: 0, max: 700 })) },
  ),
);
