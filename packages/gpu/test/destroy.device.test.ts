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
  test.each([true, false])('errors stay visible to the owner of a device (its own: %s)', async (own) => {
    const { device } = first!,
      listeners: ((event: unknown) => void)[] = [],
      seen = changed(device, { addEventListener: (_: string, listener: never) => listeners.push(listener) }),
      adapter = { limits: {}, features: new Set(), requestDevice: async () => changed(seen, { destroy() {} }) };
    const gpu = await openGpu(own ? { adapter: adapter as unknown as GPUAdapter } : { device: seen }),
      preventDefault = vi.fn();
    for (const listener of listeners) listener({ preventDefault, error: new Error('theirs') });
    expect(preventDefault).toHaveBeenCalledTimes(own ? 1 : 0);
    gpu.destroy();
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
