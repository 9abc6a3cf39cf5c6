import { cpu } from '@kv/cpu';
import type { Tensor } from '@kv/core';
import { afterAll, describe, expect, test } from 'vitest';
import { openGpu } from '../src/index.ts';
import { grid } from '../src/grid.ts';
import { sizeClass } from '../src/buffer-pool.ts';
import { gpuTests, testGpu } from './device.ts';

const gpuTest = await gpuTests();
const available = await testGpu();
afterAll(() => available?.destroy());

gpuTest('one submit and one readback for any number of tensors, equal ones once', async (gpu) => {
  const { ops } = gpu,
    before = { ...gpu.counters };
  const x = ops.from({ data: [1, 2, 3, 4], shape: [2, 2] }, 'f32', ops.from({ data: [1, 2], shape: [2] }, 'u32')),
    y = ops.add(x, 1);
  const [a, b, again, empty] = await gpu.read([x, y, x, ops.from({ data: [], shape: [0, 3] })]);
  expect([...a.data, ...b.data, ...again.data, ...empty.data]).toEqual([1, 2, 3, 4, 2, 3, 4, 5, 1, 2, 3, 4]);
  expect([a.lengths, b.lengths, empty.lengths]).toEqual([Uint32Array.of(1, 2), Uint32Array.of(1, 2), undefined]);
  expect({ ...gpu.counters }).toEqual({
    dispatches: before.dispatches + 1,
    submits: before.submits + 1,
    readbacks: before.readbacks + 1,
    bytes: before.bytes + 2 * 16,
  });
});

gpuTest('a scope gives its buffers back, except what it keeps, also when it fails', async (gpu) => {
  const start = gpu.ledger.live;
  const kept = await gpu.scope(({ ops, keep }) => {
    const x = ops.from({ data: [1, 2, 3], shape: [1, 3] }, 'f32', ops.from({ data: [2], shape: [1] }, 'u32'));
    const y = ops.exp(ops.sub(x, x));
    keep(y);
    return y;
  });
  expect(gpu.ledger.live - start).toBe(2 * 256);
  expect([...(await gpu.read([kept]))[0].data]).toEqual([1, 1, 1]);
  await expect(
    gpu.scope(({ ops }) => {
      ops.from({ data: [1], shape: [1] });
      throw new Error('mine');
    }),
  ).rejects.toThrow('mine');
  expect(gpu.ledger.live - start).toBe(2 * 256);
});

gpuTest('a scope that lasts, and commands in one order with its operations', async (gpu) => {
  const double = {
    id: 'test:double',
    writes: [false, true],
    code: `
@group(1) @binding(0) var<uniform> size: u32;
@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read_write> y: array<f32>;
@compute @workgroup_size(1) fn main(@builtin(global_invocation_id) at: vec3<u32>) { if (at.x < size) { y[at.x] = 2.0 * x[at.x]; } }`,
  };
  const start = gpu.ledger.live,
    before = { ...gpu.counters },
    { commands, ops, read, end } = gpu.open(),
    record = (bound: readonly Tensor[], scalars: Uint32Array, groups: number): void =>
      commands.record({ key: double.id, shader: () => double, bound, scalars, groups });
  const x = commands.upload(Float32Array.of(1, 2, 3), [3]),
    y = commands.make([3]),
    z = commands.make([3]);
  commands.write(x, Float32Array.of(7), 1);
  record([x, y], Uint32Array.of(3), 4);
  record([ops.add(y, 1), z], Uint32Array.of(3), 3);
  record([x, z], Uint32Array.of(3), 0);
  commands.free(y); // commands recorded with it still run
  const other = commands.upload(new Float32Array(3), [3]);
  expect([...(await read([z]))[0].data, ...(await read([other]))[0].data]).toEqual([6, 30, 14, 0, 0, 0]);
  expect(gpu.counters.dispatches - before.dispatches).toBe(3);
  expect(() => record([y, z], Uint32Array.of(3), 3)).toThrow('whose scope has ended');
  expect(() => record([x, z], new Uint32Array(65), 3)).toThrow('test:double: has 65 scalars, expected at most 64');
  expect(gpu.ledger.live).toBeGreaterThan(start);
  end();
  end();
  expect(gpu.ledger.live - start).toBeLessThanOrEqual(65_536); // the scalars of a batch
  expect(() => ops.add(x, 1)).toThrow('whose scope has ended');
});

gpuTest('tensors of an ended scope, of another device and of the host are refused', async (gpu) => {
  const old = await gpu.scope(({ ops }) => ops.from({ data: [1], shape: [1, 1] }));
  expect(() => gpu.ops.add(old, 1)).toThrow('whose scope has ended');
  await expect(gpu.read([old])).rejects.toThrow('whose scope has ended');
  expect(() => gpu.ops.add(cpu.ops.from({ data: [1], shape: [1, 1] }), 1)).toThrow(
    'a tensor of another backend came in',
  );
  expect(() => gpu.ops.add(available!.ops.from({ data: [1], shape: [1, 1] }), 1)).toThrow(
    'a tensor of another backend came in',
  );
});

gpuTest('a buffer that is lent again is not overwritten under commands that wait', async (gpu) => {
  const sum = await gpu.scope(async ({ ops, keep }) => {
    const y = ops.add(ops.from({ data: new Float32Array(64).fill(5), shape: [1, 64] }), 1); // recorded, not submitted
    keep(y);
    return y;
  });
  // reuses the buffer of the 5s
  for (let i = 0; i < 4; i++) gpu.ops.from({ data: new Float32Array(64).fill(-9), shape: [1, 64] });
  expect([...new Set((await gpu.read([sum]))[0].data)]).toEqual([6]);
});

gpuTest('a tensor beyond the limits of the adapter is refused', (gpu) => {
  expect(() => gpu.ops.fill({ shape: [4, 2 ** 30], dtype: 'f32' }, 1)).toThrow(
    /^gpu: a tensor of shape \[4,1073741824\] needs 17179869184 bytes, but this adapter binds at most \d+/,
  );
});

gpuTest('more dispatches than one batch holds', async (gpu) => {
  for (const [count, submits] of [
    [700, 1],
    [2100, 2],
  ] as const) {
    const before = gpu.counters.submits;
    expect(
      await gpu.scope(async ({ ops, read }) => {
        let x = ops.from({ data: [0], shape: [1, 1] });
        for (let i = 0; i < count; i++) x = ops.add(x, i % 2 === 0 ? 3 : -1);
        return (await read([x]))[0].data[0];
      }),
    ).toBe(count);
    expect(gpu.counters.submits - before).toBe(submits);
  }
});

gpuTest('what goes up takes no buffer that recorded commands still use', async (gpu) => {
  const { submits } = { ...gpu.counters },
    sums: Tensor[] = [];
  for (let i = 0; i < 5; i++)
    await gpu.scope(({ ops, keep }) => {
      keep((sums[i] = ops.add(ops.from({ data: [i], shape: [1, 1] }), 1)));
    });
  expect(gpu.counters.submits).toBe(submits);
  expect((await gpu.read(sums)).map(({ data }) => data[0])).toEqual([1, 2, 3, 4, 5]);
  expect(gpu.counters.submits).toBe(submits + 1);
});

gpuTest('reads that overlap give each its own numbers', async (gpu) => {
  const reads = Array.from({ length: 8 }, (_, i) =>
    gpu.scope(async ({ ops, read }) => (await read([ops.fill(ops.from({ data: [0], shape: [1, 1] }), i)]))[0].data[0]),
  );
  expect(await Promise.all(reads)).toEqual([0, 1, 2, 3, 4, 5, 6, 7]);
});

gpuTest('two hundred scopes leave memory as it was', async (gpu) => {
  const event = (): Promise<number> =>
    gpu.scope(
      async ({ ops, read }) =>
        (
          await read([
            ops.reduce('sum', ops.simplex(ops.from({ data: new Float32Array(500).fill(2), shape: [1, 500] })), 'slots'),
          ])
        )[0].data[0],
    );
  await event();
  const { allocated, buffers } = { ...gpu.ledger };
  for (let i = 0; i < 200; i++) await event();
  expect({ ...gpu.ledger }).toMatchObject({ allocated, buffers });
});

gpuTest('idle buffers beyond the limit are freed', async (gpu) => {
  const small = await openGpu({ device: gpu.device, idleBytes: 4096 });
  await small.scope(({ ops }) => {
    for (let i = 0; i < 10; i++) ops.exp(ops.from({ data: new Float32Array(1000), shape: [1, 1000] }));
  });
  expect(small.ledger.live).toBeLessThan(small.ledger.allocated + 1);
  expect(small.ledger.allocated - small.ledger.live).toBeLessThanOrEqual(4096);
  small.destroy();
  expect({ ...small.ledger }).toMatchObject({ live: 0, allocated: 0, buffers: 0 });
  expect([...(await gpu.read([gpu.ops.from({ data: [3], shape: [1] })]))[0].data]).toEqual([3]); // `small` does not own the device
});

const GPU_STORAGE = 0x80; // GPUBufferUsage.STORAGE
describe.skipIf(!available)('what the device reports comes out of the next read', () => {
  test('WGSL that does not compile, by the name of its kernel', async () => {
    const gpu = (await testGpu())!;
    const x = gpu.ops.from({ data: [1], shape: [1, 1] });
    const y = gpu.ops.kernel(
      {
        id: 'typo',
        inputs: { x: 'f32' },
        params: {},
        output: { dtype: 'f32', shape: () => [1, 1] },
        per: 'element',
        wgsl: 'fn run(index: u32) { output[index] = nothing; }',
        ref: () => undefined,
      },
      { x },
    );
    await expect(gpu.read([y])).rejects.toThrow(/^typo: its WGSL does not compile, line \d+: .*nothing/);
    gpu.destroy();
  });
  test('an error that was not caught', async () => {
    const gpu = (await testGpu())!;
    const x = gpu.ops.from({ data: [1], shape: [1, 1] });
    gpu.device.createBuffer({ size: 2 ** 50, usage: GPU_STORAGE });
    await expect(gpu.read([x])).rejects.toThrow(/^gpu: .*1125899906842624/);
    gpu.destroy();
  });
});

test('no adapter: one sentence that says what to install', async () => {
  const instance = { requestAdapter: async () => null } as unknown as GPU;
  await expect(openGpu({ instance })).rejects.toThrowErrorMatchingInlineSnapshot(
    `[KvError: gpu: no WebGPU adapter was found: install a Vulkan driver for the GPU, or SwiftShader (it comes with Chromium) and point VK_ICD_FILENAMES to its vk_swiftshader_icd.json]`,
  );
});

test('grids and size classes', () => {
  expect([grid(1, 65_535), grid(65_535, 65_535), grid(65_536, 65_535), grid(200_000, 65_535), grid(7, 3)]).toEqual([
    [1, 1],
    [65_535, 1],
    [32_768, 2],
    [50_000, 4],
    [3, 3],
  ]);
  for (const bytes of [0, 1, 256, 257, 65_536, 65_537, 70_000, 1_000_000]) {
    expect(sizeClass(bytes)).toBeGreaterThanOrEqual(Math.max(256, bytes));
    expect(sizeClass(bytes)).toBeLessThanOrEqual(bytes > 65_536 ? bytes * 1.125 : Math.max(256, 2 * bytes));
    expect(sizeClass(bytes) % 4).toBe(0);
  }
});
