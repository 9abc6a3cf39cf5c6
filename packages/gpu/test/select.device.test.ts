import { cpu, readCpu } from '@kv/cpu';
import type { Ops, Tensor } from '@kv/core';
import { numbers } from '@kv/gpu-testing';
import { expect } from 'vitest';
import { gpuTests } from './device.ts';
import { everywhere, same, tensor } from './differential.ts';

const gpuTest = await gpuTests();

gpuTest('select with forced, banned and inactive rows, ties to the lower slot', (gpu) =>
  everywhere(
    async (c) => {
      const dense = { ...c, ragged: false },
        rows = c.kv * c.group,
        kind = c.seed % 3 === 0 ? 'any' : 'ties';
      const mask = (ops: Ops, n: number, salt: number, share: number, of = c): Tensor =>
        ops.less(tensor(ops, of, [n, c.slots], 'any', salt), share);
      const budgets = (ops: Ops): Tensor =>
        ops.map('abs', ops.mul(tensor(ops, dense, [rows, 1], 'any', 17), c.slots / (c.seed % 2 === 0 ? 4 : 40)));
      const scores = (ops: Ops): Tensor => tensor(ops, c, [c.seed % 5 === 0 ? c.kv : rows, c.slots], kind);
      await same(gpu, (ops) => ops.select(scores(ops), budgets(ops)));
      await same(gpu, (ops) =>
        ops.select(scores(ops), budgets(ops), { forced: mask(ops, c.kv, 3, -10), banned: mask(ops, 1, 4, 0, dense) }),
      );
      await same(gpu, (ops) =>
        ops.select(scores(ops), budgets(ops), {
          banned: mask(ops, rows, 5, 3),
          active: ops.less(tensor(ops, dense, [rows, 1], 'any', 6), 0),
        }),
      );
    },
    { runs: 25 },
  ),
);

gpuTest('budgets below 0, fractional, enormous and of one row for all', async (gpu) => {
  const scores = (ops: Ops): Tensor => ops.from({ data: numbers(3, 600), shape: [6, 100] });
  for (const budget of [-5, 0, 0.99, 1.5, 99.5, 100, 1e30])
    await same(gpu, (ops) => ops.select(scores(ops), ops.from({ data: [budget], shape: [1, 1] })));
});

gpuTest('rows of several thousand slots with forced and banned ones, of many ties', async (gpu) => {
  for (const slots of [2049, 5000]) {
    const mask = (ops: Ops, salt: number, share: number): Tensor =>
      ops.less(ops.from({ data: numbers(salt, slots), shape: [1, slots] }), share);
    await same(gpu, (ops) =>
      ops.select(
        ops.from({ data: numbers(slots, 2 * slots).map(Math.round), shape: [2, slots] }),
        ops.from({ data: [900, slots - 3], shape: [2, 1] }),
        { forced: mask(ops, 5, -3), banned: mask(ops, 6, -2) },
      ),
    );
  }
});

gpuTest('zeros of both signs tie, subnormal scores do not', async (gpu) => {
  const data = [-0, 0, 1e-45, -1e-45, 0, 1e-39, -0, -1e30, 1e30, 2e-45];
  for (let k = 0; k <= data.length; k++)
    await same(gpu, (ops) =>
      ops.select(ops.from({ data, shape: [1, data.length] }), ops.from({ data: [k], shape: [1, 1] })),
    );
});

gpuTest('131,072 slots: the set of a full sort, many ties', async (gpu) => {
  const slots = 131_072,
    data = numbers(11, slots).map((x) => Math.fround(Math.round(x * 100) / 100));
  const build = (ops: Ops): Tensor =>
    ops.select(ops.from({ data, shape: [1, slots] }), ops.from({ data: [30_000], shape: [1, 1] }));
  const kept = await gpu.scope(async ({ ops, read }) => (await read([build(ops)]))[0]);
  const want = readCpu(build(cpu.ops));
  expect([...kept.lengths!]).toEqual([30_000]);
  expect(kept.data).toEqual(want.data);
});

const full = Number(process.env['FC_RUNS'] ?? 0) > 100; // a software adapter needs 5 s for the larger one
gpuTest(`${full ? 131_072 : 32_768} slots in two rows: every rank`, async (gpu) => {
  const slots = full ? 65_536 : 16_384,
    data = numbers(12, 2 * slots).map((x) => Math.fround(Math.round(x * 100) / 100));
  const build = (ops: Ops): Tensor => ops.rank(ops.from({ data, shape: [2, slots] }), 'all');
  const got = await gpu.scope(async ({ ops, read }) => (await read([build(ops)]))[0]);
  expect(got.data).toEqual(readCpu(build(cpu.ops)).data);
});

gpuTest('scores of whole numbers are ordered as numbers', async (gpu) => {
  const scores = (ops: Ops): Tensor => ops.from({ data: Uint32Array.of(5, 3_000_000, 7, 5, 0), shape: [1, 5] });
  await same(gpu, (ops) => ops.select(scores(ops), ops.from({ data: [2], shape: [1, 1] })));
  await same(gpu, (ops) => ops.rank(scores(ops), 'row'));
  await same(gpu, (ops) => ops.take(scores(ops), ops.rank(scores(ops), 'row')));
  await same(gpu, (ops) => ops.firstBad(ops.from({ data: Uint32Array.of(0xffff_ffff), shape: [1, 1] })));
});
