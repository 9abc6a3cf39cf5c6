import type { Ops, Tensor } from '@kv/core';
import { numbers, random } from '@kv/gpu-testing';
import { greedyOrder } from '@kv/selectors-diversity';
import { evictionOrder, firstColumns } from '@kv/selectors-joint-eviction';
import { gpuTests } from './device.ts';
import { exact, same } from './differential.ts';

const gpuTest = await gpuTests();
const SIZES = [1, 255, 256, 257, 520],
  ROWS = 2,
  D = 4;

/** Small whole numbers, so that sums are exact and many gains equal. */
const small = (seed: number, count: number): Float32Array => numbers(seed, count, 'ties');
/** 1 at about every eighth slot. */
const some = (seed: number, count: number): Float32Array => {
  const next = random(seed);
  return Float32Array.from({ length: count }, () => Number(next() < 0.125));
};

gpuTest(
  'diversity by a workgroup: forced first, banned never, ties to the lower slot, beyond 256 slots',
  async (gpu) => {
    for (const n of SIZES)
      await same(
        gpu,
        (ops: Ops): Tensor =>
          ops.kernel(greedyOrder, {
            scores: ops.from(
              { data: small(n, ROWS * n), shape: [ROWS, n] },
              'f32',
              ops.from({ data: [n, Math.floor(n / 2)], shape: [ROWS] }, 'u32'),
            ),
            signatures: ops.from({ data: small(n + 1, n * D), shape: [1, n, D] }), // one row for both heads
            forced: ops.from({ data: some(n + 2, ROWS * n), shape: [ROWS, n] }),
            banned: ops.from({ data: some(n + 3, ROWS * n), shape: [ROWS, n] }),
            budgets: ops.from({ data: [Math.min(n, Math.ceil(n / 8) + 9), 5], shape: [ROWS, 1] }),
            lambdas: ops.from({ data: [0.5, 0.25], shape: [ROWS, 1] }),
          }),
        exact,
      );
  },
);

gpuTest('joint eviction by a workgroup: banned first, forced never, two query heads, beyond 256 slots', async (gpu) => {
  for (const n of SIZES)
    await same(
      gpu,
      (ops: Ops): Tensor => {
        const mask = ops.from(
          { data: some(n, ROWS * n).map((x, i) => x - some(n + 1, ROWS * n)[i]), shape: [ROWS, n] },
          'f32',
          ops.from({ data: [n, Math.ceil(n / 2)], shape: [ROWS] }, 'u32'),
        );
        const order = ops.kernel(evictionOrder, {
          weights: ops.from({ data: numbers(n + 2, 2 * ROWS * n, 'weights').map((x) => x / 4), shape: [2 * ROWS, n] }),
          outputs: ops.from({ data: numbers(n + 3, 2 * ROWS * D), shape: [2 * ROWS, D] }),
          values: ops.from({ data: numbers(n + 4, ROWS * n * D), shape: [ROWS, n, D] }),
          mask,
          budgets: ops.from({
            data: [Math.max(0, n - Math.ceil(n / 8) - 12), Math.max(0, Math.ceil(n / 2) - 30)],
            shape: [ROWS, 1],
          }),
        });
        return ops.kernel(firstColumns, { x: order, like: mask });
      },
      exact,
    );
});
