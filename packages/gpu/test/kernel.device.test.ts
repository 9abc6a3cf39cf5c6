import { meanByPosition } from '@kv/core';
import { cpu } from '@kv/cpu';
import { quadratic } from '@kv/core/shared';
import type { Kernel, Ops, Tensor } from '@kv/core';
import { random } from '@kv/gpu-testing';
import { expect } from 'vitest';
import { gpuTests } from './device.ts';
import { everywhere, exact, same, sums, tensor } from './differential.ts';
import type { Case } from './differential.ts';

const gpuTest = await gpuTests();

/** Positions of a cache after evictions: ascending, different in every row, and more in longer rows. */
function positions(ops: Ops, { seed, ragged }: Case, rows: number, slots: number): Tensor {
  const next = random(seed + 5),
    data = new Uint32Array(rows * slots);
  for (let r = 0; r < rows; r++)
    for (let i = 0, p = 0; i < slots; i++) data[r * slots + i] = p += 1 + Math.floor(next() * 3);
  const lengths = ragged
    ? ops.from({ data: Uint32Array.from({ length: rows }, () => Math.floor(next() * (slots + 1))), shape: [rows] })
    : undefined;
  return ops.from({ data, shape: [rows, slots] }, 'u32', lengths);
}

gpuTest('meanByPosition as its reference', (gpu) =>
  everywhere(async (c) => {
    const x = (ops: Ops): Tensor => tensor(ops, { ...c, ragged: false }, [c.kv * c.group, c.slots]);
    const of = (ops: Ops, values: Tensor): Tensor =>
      ops.kernel(meanByPosition, { x: values, positions: positions(ops, c, c.kv, c.slots) });
    await same(
      gpu,
      (ops) => of(ops, x(ops)),
      sums(c.kv * c.group + 4),
      (ops) => of(ops, ops.map('abs', x(ops))),
    );
  }),
);

/** A kernel with parameters of both types, one call per row, and an output of another type than the inputs. */
const crossings: Kernel = {
  id: 'crossings',
  inputs: { x: 'f32', weights: 'u32' },
  params: { shift: 'u32', bar: 'f32' },
  ragged: 'x',
  output: { dtype: 'u32', shape: ({ x }) => [x[0], 2] },
  per: 'row',
  wgsl: /* wgsl */ `
fn over(x: f32) -> bool { return x >= params.bar; }
fn run(index: u32) {
  var found = 0u;
  for (var i = 0u; i < x_lengths[index]; i++) { if (over(x[index * x_shape.y + i])) { found += weights[i]; } }
  output[2u * index] = found + params.shift;
  output[2u * index + 1u] = x_shape.x + x_shape.y + x_shape.z + weights_shape.y;
}`,
  ref({ x, weights }, { shift, bar }, out, lengths) {
    const [rows = 0, slots = 0] = x.shape;
    for (let r = 0; r < rows; r++) {
      let found = 0;
      for (let i = 0; i < lengths[r]; i++) if (x.data[r * slots + i] >= bar) found += weights.data[i];
      out[2 * r] = found + shift;
      out[2 * r + 1] = rows + slots + 1 + weights.shape[1];
    }
  },
};
gpuTest('a kernel by rows, with parameters, lengths and shapes', (gpu) =>
  everywhere(async (c) => {
    const build = (ops: Ops): Tensor =>
      ops.kernel(
        crossings,
        {
          x: tensor(ops, c, [c.kv, c.slots]),
          weights: ops.from({ data: Uint32Array.from({ length: c.slots }, (_, i) => i * 3), shape: [1, c.slots] }),
        },
        { shift: 7, bar: 0.25 },
      );
    await same(gpu, (ops) => ops.reshape(build(ops), [2 * c.kv]), exact);
  }),
);

gpuTest('query rows of a kernel have the lengths of their KV head', async (gpu) => {
  for (const { ops, read } of [gpu, cpu]) {
    const lengths = ops.from({ data: Uint32Array.of(1, 3), shape: [2] }),
      x = ops.from({ data: new Float32Array(6).fill(2), shape: [2, 3, 1] }, 'f32', lengths),
      m = ops.from({ data: Float32Array.of(1, 2, 3, 4), shape: [4, 1, 1] }),
      c = ops.from({ data: Float32Array.of(0), shape: [1, 1] });
    const [got] = await read([ops.kernel(quadratic, { x, m, c })]);
    expect([got.shape, Array.from(got.lengths!), Array.from(got.data.slice(9))]).toEqual([
      [4, 3],
      [1, 1, 3, 3],
      [16, 16, 16],
    ]);
  }
});

gpuTest('a kernel that is called or written wrongly says so', async (gpu) => {
  for (const ops of [gpu.ops, cpu.ops])
    expect(() => ops.kernel(crossings, { x: ops.from({ data: [1], shape: [1, 1] }) })).toThrow(
      "crossings: expected the input 'weights', got x",
    );
  const one = gpu.ops.from({ data: [1], shape: [1, 1] });
  expect(() => gpu.ops.kernel(crossings, { x: one, weights: one }, { shift: 0, bar: 0 })).toThrow(
    "expected the input 'weights' as u32, got f32",
  );
  expect(() =>
    gpu.ops.kernel(crossings, { x: one, weights: gpu.ops.from({ data: [1], shape: [1, 1] }, 'u32') }, { shift: 0 }),
  ).toThrow("expected the parameter 'bar', got shift");
  const inputs = Object.fromEntries(Array.from({ length: 10 }, (_, i) => [`in${i}`, 'f32' as const]));
  expect(() =>
    gpu.ops.kernel(
      { ...crossings, id: 'wide', inputs, ragged: 'in0', output: { dtype: 'f32', shape: () => [1, 1] } },
      Object.fromEntries(Object.keys(inputs).map((n) => [n, one])),
      { shift: 0, bar: 0 },
    ),
  ).toThrow('wide: binds 12 buffers, expected at most');
});
