import { applyOn, compose } from '@kv/core';
import { numbers } from '@kv/gpu-testing';
import { snapkv } from '@kv/scorers-attention';
import { topK } from '@kv/selectors-top-k';
import { afterAll, describe, expect, test } from 'vitest';
import { openGpu } from '../src/index.ts';
import type { Gpu, GpuOptions } from '../src/index.ts';
import { testGpu } from './device.ts';

const plain = await testGpu();
afterAll(() => plain?.destroy());

const policy = compose(snapkv({ window: 4 }), topK()),
  inputs = { attention: { data: numbers(1, 2 * 50, 'weights'), shape: [2, 50] }, budget: 20 };
const event = async (gpu: Gpu): Promise<unknown> => (await gpu.scope((scope) => applyOn(scope, policy, inputs))).kept;
const opened = async (
  timestamps: NonNullable<GpuOptions['timestamps']>,
  run: (gpu: Gpu) => Promise<void>,
): Promise<void> => {
  const gpu = await openGpu({ timestamps });
  try {
    await run(gpu);
  } finally {
    gpu.destroy();
    expect(gpu.ledger).toMatchObject({ live: 0, allocated: 0, buffers: 0 });
  }
};

// SwiftShader and lavapipe both have timestamp-query
describe.skipIf(!plain)('timestamps', () => {
  test('every kernel has its dispatches and time, by label; results and counters are those without', () =>
    opened('kernels', async (gpu) => {
      const before = { ...plain!.counters },
        want = await event(plain!),
        dispatches = plain!.counters.dispatches - before.dispatches;
      expect(gpu.label('first')).toBe('');
      expect(await event(gpu)).toEqual(want);
      expect(gpu.label('second')).toBe('first');
      await event(gpu);
      expect(gpu.counters).toEqual({
        dispatches: 2 * dispatches,
        submits: 2,
        readbacks: 2,
        bytes: 2 * (plain!.counters.bytes - before.bytes),
      });
      const times = await gpu.timings(),
        of = (label: string) => times.filter((t) => t.label === label);
      for (const label of ['first', 'second']) {
        expect(of(label).reduce((sum, t) => sum + t.dispatches, 0)).toBe(dispatches);
        expect(of(label).find(({ kernel }) => kernel === 'select')?.nanoseconds).toBeGreaterThan(0);
      }
      expect(new Set(of('first').map((t) => t.kernel))).toEqual(new Set(of('second').map((t) => t.kernel)));
      expect(times.map((t) => t.nanoseconds)).toEqual(times.map((t) => t.nanoseconds).sort((a, b) => b - a));
      expect(await gpu.timings()).toEqual([]);
    }));
  test('passes as they are, cut where the label changes; what is only recorded is submitted', () =>
    opened('passes', async (gpu) => {
      await gpu.scope(async ({ ops }) => {
        const x = ops.from({ data: Float32Array.of(1, 2), shape: [1, 2] });
        gpu.label('one');
        const y = ops.exp(ops.exp(x));
        gpu.label('one');
        const z = ops.exp(y);
        gpu.label('two');
        ops.exp(z);
        expect(
          (await gpu.timings()).map(({ label, kernel, dispatches }) => [label, kernel, dispatches]).sort(),
        ).toEqual([
          ['one', '', 3],
          ['two', '', 1],
        ]);
        for (let i = 0; i < 2100; i++) ops.exp(x); // more than one submit
        expect(await gpu.timings()).toEqual([
          { label: 'two', kernel: '', dispatches: 2100, nanoseconds: expect.any(Number) as number },
        ]);
      });
    }));
  test('a device without says so', async () => {
    expect(plain!.label('anything')).toBe('');
    await expect(plain!.timings()).rejects.toThrow(
      /^gpu: expected a device opened with \{ timestamps: 'kernels' \} or 'passes', got one without/,
    );
    await expect(openGpu({ device: plain!.device, timestamps: 'passes' })).rejects.toThrow(
      /^gpu: expected an adapter or device with timestamp-query for timestamps, got /,
    );
    await expect(openGpu({ timestamps: true as unknown as 'passes' })).rejects.toThrow(
      /^timestamps: must be 'kernels' or 'passes', got true/,
    );
  });
  test('a lost device is what is reported', () =>
    opened('kernels', async (gpu) => {
      await event(gpu);
      gpu.device.destroy();
      await gpu.device.lost;
      await expect(event(gpu)).rejects.toThrow(/^gpu: the device was lost/);
      await expect(gpu.timings()).rejects.toThrow(/^gpu: the device was lost/);
    }));
});
