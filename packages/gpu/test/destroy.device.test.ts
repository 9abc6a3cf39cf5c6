import { KvError } from '@kv/core';
import { describe, expect, test, vi } from 'vitest';
import { openGpu } from '../src/index.ts';
import type { Gpu } from '../src/index.ts';
import { testGpu } from './device.ts';

const first = await testGpu(),
  DESTROYED = 'gpu: the backend was destroyed: open another one',
  /** The device with other members. */
  changed = (device: GPUDevice, members: object): GPUDevice =>
    new Proxy(device, {
      get(own, name) {
        if (name in members) return Reflect.get(members, name) as unknown;
        const value: unknown = Reflect.get(own, name);
        return typeof value === 'function' ? (value.bind(own) as unknown) : value;
      },
    }),
  none = { live: 0, allocated: 0, buffers: 0 };

describe.skipIf(!first)('a backend that was destroyed', () => {
  test('what was open is freed without an error, and all else says so and holds nothing', async () => {
    const gpu = (await testGpu())!,
      scope = gpu.open(),
      { commands, ops, read } = scope,
      x = commands.upload(Float32Array.of(1, 2), [2]),
      add = ops.add(x, 1);
    gpu.destroy();
    commands.write(x, Float32Array.of(1), 0);
    commands.free(x);
    scope.end();
    for (const use of [
      () => commands.make([2]),
      () => commands.upload(Float32Array.of(1), [1]),
      () => ops.add(x, 1),
      () => gpu.ops.from({ data: [1], shape: [1] }),
      () => gpu.open().commands.make([1]),
    ])
      expect(use).toThrow(DESTROYED);
    for (const reading of [read([add]), read([]), gpu.read([x])]) await expect(reading).rejects.toThrow(DESTROYED);
    expect(gpu.ledger).toMatchObject(none);
  });

  test.each(['kernels', 'passes', undefined] as const)('during a read, with timestamps %s', async (timestamps) => {
    const gpu = await openGpu(timestamps ? { timestamps } : {}),
      reading = gpu.read([gpu.ops.add(gpu.ops.from({ data: [1], shape: [1] }), 1)]);
    gpu.destroy();
    await expect(reading).rejects.toThrow(DESTROYED);
    if (timestamps) await expect(gpu.timings()).rejects.toThrow(DESTROYED);
    expect(gpu.ledger).toMatchObject(none);
  });

  test("on a caller's device, which goes on without a buffer of it", async () => {
    const { device } = first!,
      made: GPUBuffer[] = [],
      create = device.createBuffer.bind(device);
    let freed = 0;
    device.createBuffer = (wanted) => {
      const buffer = create(wanted),
        destroy = buffer.destroy.bind(buffer);
      buffer.destroy = () => {
        freed++;
        destroy();
      };
      made.push(buffer);
      return buffer;
    };
    device.pushErrorScope('validation');
    const gpu: Gpu = await openGpu({ device }),
      scope = gpu.open(),
      x = scope.ops.from({ data: [1, 2], shape: [1, 2] });
    expect([...(await scope.read([scope.ops.add(x, 1)]))[0].data]).toEqual([2, 3]);
    scope.ops.add(x, 2);
    gpu.destroy();
    expect(() => scope.ops.add(x, 1)).toThrow(DESTROYED);
    scope.end();
    expect([made.length > 0, freed]).toEqual([true, made.length]);
    expect(await device.popErrorScope()).toBe(null);
    device.createBuffer = create;
  });
});

describe.skipIf(!first)('what a device of others reports, and adapters', () => {
  test('an error of its own device is thrown by the next read, and not logged', async () => {
    const { device } = first!,
      listeners: ((event: unknown) => void)[] = [],
      seen = changed(device, {
        addEventListener: (_: string, listener: never) => listeners.push(listener),
        destroy() {},
      }),
      adapter = { limits: {}, features: new Set(), requestDevice: async () => seen };
    const gpu = await openGpu({ adapter: adapter as unknown as GPUAdapter }),
      preventDefault = vi.fn();
    for (const listener of listeners) listener({ preventDefault, error: new Error('mine') });
    expect(preventDefault).toHaveBeenCalledTimes(1);
    await expect(gpu.read([gpu.ops.from({ data: [1], shape: [1] })])).rejects.toThrow("refused a command ('mine')");
    gpu.destroy();
  });

  test("a caller's device: its errors are its own, and what the backend does wrong is thrown by the next read", async () => {
    const owner = (await testGpu())!,
      { device } = owner,
      theirs: string[] = [];
    device.addEventListener('uncapturederror', ({ error }) => theirs.push(error.message));
    let size = 0;
    const broken = changed(device, {
        createBuffer: (wanted: GPUBufferDescriptor) => device.createBuffer({ ...wanted, size: wanted.size + size }),
      }),
      [gpu, other] = [await openGpu({ device }), await openGpu({ device: broken })];
    device.createBuffer({ size: 2 ** 50, usage: 0x80 });
    const read = async ({ ops, read }: Gpu): Promise<readonly number[]> => [
      ...(await read([ops.add(ops.from({ data: [1, 2], shape: [1, 2] }), 1)]))[0].data,
    ];
    for (const each of [gpu, other]) expect(await read(each)).toEqual([2, 3]);
    size = 2 ** 50;
    other.ops.fill({ shape: [1, 5000], dtype: 'f32' }, 1);
    for (let turn = 0; turn < 2; turn++)
      await expect(read(other)).rejects.toThrow(/^gpu: .*(did not fit|refused a command).*: open another device/);
    expect(await read(gpu)).toEqual([2, 3]);
    expect(theirs[0]).toContain('1125899906842624');
    await expect(read(owner)).rejects.toThrow(/^gpu: /);
    for (const each of [other, gpu, owner]) each.destroy();
    expect(other.ledger).toMatchObject(none);
  });

  test('an adapter that tells nothing of itself, or whose device tells nothing', async () => {
    const gpu = (await testGpu())!;
    const silent = changed(gpu.device, { adapterInfo: undefined });
    const quiet = await openGpu({ device: silent });
    expect([quiet.name, quiet.software]).toEqual(['webgpu', false]);
    quiet.destroy();
    gpu.destroy();
  });

  test('an adapter that gave its device already', async () => {
    const adapter = {
      limits: {},
      features: new Set(),
      requestDevice: () => Promise.reject(new DOMException('adapter is consumed')),
    } as unknown as GPUAdapter;
    const error: unknown = await openGpu({ adapter }).catch((cause: unknown) => cause);
    expect(KvError.is(error)).toBe(true);
    expect((error as Error).message).toBe(
      'gpu: webgpu gave no device (adapter is consumed): an adapter gives one, once; request another adapter',
    );
  });
});
