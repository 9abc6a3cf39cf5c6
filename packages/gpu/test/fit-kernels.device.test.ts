import { compile, emptyDraft } from '@kv/core/engine';
import { mulberry } from '@kv/core/shared';
import type { Backend } from '@kv/core';
import { cpu } from '@kv/cpu';
import type { KernelSize } from '@kv/laws';
import { dualEquations, fit, intoSlots, referenceLogits, solved, spread } from '@kv/transforms-fit';
import { expect } from 'vitest';
import { asReference } from './as-reference.ts';
import { gpuTests } from './device.ts';

const gpuTest = await gpuTests();
const numbers = (count: number, by: number): Float32Array =>
  Float32Array.from({ length: count }, (_, i) => Math.sin(i * by));

/** Two queries of each row's KV head, and equations that can be solved. */
function inputsOf({ rows, slots, lengths }: KernelSize) {
  const [m, c] = [2, 3],
    a = numbers(rows * m * (m + c), 3);
  for (let g = 0; g < rows; g++) {
    const at = g * m * (m + c);
    [a[at], a[at + m + c + 1], a[at + m + c]] = [2, 2, a[at + 1]];
  }
  const counts = Float32Array.from({ length: rows }, (_, g) => Math.ceil((lengths?.[g] ?? slots) / 2));
  return {
    q: { data: numbers(rows * m * 2, 5), shape: [rows, m, 2] },
    t: { data: Uint32Array.of(2, 3), shape: [1, m] },
    k: { data: numbers(rows * slots * 2, 7), shape: [rows, slots, 2], lengths },
    p: { data: Uint32Array.from({ length: rows * slots }, (_, i) => i % slots), shape: [rows, slots], lengths },
    b: { data: numbers(rows * slots, 2), shape: [rows, slots], lengths },
    x: { data: numbers(rows * slots, 5), shape: [rows, slots], lengths },
    r: { data: numbers(rows * c, 11), shape: [rows, c] },
    a: { data: a, shape: [rows, m, m + c] },
    alpha: { data: numbers(rows * (1 + c), 13), shape: [rows, 1, 1 + c] },
    like: { data: new Float32Array(rows * slots), shape: [rows, slots], lengths },
    kept: { data: Uint32Array.from({ length: rows * slots }, (_, i) => 2 * (i % slots)), shape: [rows, slots] },
    counts: { data: counts, shape: [rows, 1] },
  };
}
for (const kernel of [referenceLogits, dualEquations, solved, spread, intoSlots])
  gpuTest(`the kernel ${kernel.id} as its reference`, (gpu) =>
    asReference(gpu, kernel, (size) => ({
      inputs: inputsOf(size),
      params: { heads: size.rows, scale: 0.5, cap: 4, window: 3, ridge: 0.01 },
    })),
  );

gpuTest('a fit of ragged heads as on the CPU', async (gpu) => {
  const [H, G, w, n, d, lengths] = [4, 2, 5, 40, 8, [40, 23]],
    draw = mulberry(3),
    of = (count: number): Float32Array => Float32Array.from({ length: count }, () => 2 * draw() - 1),
    arrays = { keys: of(G * n * d), values: of(G * n * d), biases: of(G * n), queries: of(H * w * d) },
    scores = of(G * n),
    at = {
      ...{ layer: 0, layers: 1, queryHeads: H, kvHeads: G, headDim: d, step: 0, promptLength: n, length: n, slots: n },
      ...{ aligned: false, budget: 9, selectRows: G, learnedSinks: of(H), softcap: 3, window: 30 },
    };
  const run = async (backend: Backend): Promise<readonly (readonly number[])[]> => {
    const { ops } = backend,
      rows = ops.from({ data: Uint32Array.from(lengths), shape: [G] }, 'u32'),
      positions = Uint32Array.from({ length: G * n }, (_, i) => i % n),
      read = ({ id }: { readonly id: string }) =>
        id === 'queries'
          ? ops.from({ data: arrays.queries, shape: [H, w, d] })
          : id === 'positions'
            ? ops.from({ data: positions, shape: [G, n] }, 'u32', rows)
            : ops.from({ data: arrays[id as 'keys'], shape: id === 'biases' ? [G, n] : [G, n, d] }, 'f32', rows),
      budgets = ops.from({ data: Float32Array.of(9, 4), shape: [G, 1] }),
      made = compile(fit({ queries: w, ridge: 0.03 }))
        .hooks('compact')[0]
        .run({
          ...{ at, ops, draft: emptyDraft({ at, budgets: [9, 4], read }, ops), read: read as never },
          kept: ops.select(ops.from({ data: scores, shape: [G, n] }, 'f32', rows), budgets),
        });
    const read_ = await backend.read([made.biases!, made.values!]);
    return read_.map(({ data }, i) =>
      lengths.flatMap((count, g) => [...data.subarray(g * n * (i ? d : 1), (g * n + count) * (i ? d : 1))]),
    );
  };
  const [got, want] = [await gpu.scope(run), await run(cpu)];
  want.forEach((row, i) => row.forEach((x, j) => expect(Math.abs(got[i][j] - x)).toBeLessThan(2e-3)));
  expect(want[0].some((x, j) => x !== arrays.biases[j])).toBe(true);
});
