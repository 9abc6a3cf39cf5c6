import { applyOn, compose } from '@kv/core';
import { cpu } from '@kv/cpu';
import type { Inputs } from '@kv/core';
import { numbers } from '@kv/gpu-testing';
import { snapkv } from '@kv/scorers-attention';
import { topK } from '@kv/selectors-top-k';
import { afterAll, describe, expect, test } from 'vitest';
import type { Gpu } from '../src/index.ts';
import { testGpu } from './device.ts';

const first = await testGpu();
afterAll(() => first?.destroy());

const policy = compose(snapkv({ window: 4 }), topK()),
  attention = numbers(1, 2 * 50, 'weights'),
  inputs = { attention: { data: attention, shape: [2, 50] }, budget: 20 } satisfies Inputs;
const event = async (gpu: Gpu): Promise<readonly (readonly number[])[]> =>
  (await gpu.scope((scope) => applyOn(scope, policy, inputs))).kept!;

/**
 * Asserts that the event fails with one sentence, repeatedly, that host data is unchanged, and that another device
 * works.
 */
async function failsOn(gpu: Gpu, sentence: RegExp): Promise<void> {
  const before = attention.slice(),
    { kept } = await applyOn(cpu, policy, inputs);
  for (let turn = 0; turn < 2; turn++) await expect(event(gpu)).rejects.toThrow(sentence);
  expect(attention).toEqual(before);
  gpu.destroy();
  expect(gpu.ledger).toMatchObject({ live: 0, allocated: 0, buffers: 0 });
  const next = (await testGpu())!;
  expect(await event(next)).toEqual(kept);
  next.destroy();
}

describe.skipIf(!first)('one clear error, and another device goes on', () => {
  test('a device that is lost between events', async () => {
    const gpu = (await testGpu())!;
    await event(gpu);
    gpu.device.destroy();
    await gpu.device.lost;
    await failsOn(gpu, /^gpu: the device was lost \(.*\): open another one; what was on it is gone$/);
  });
  test('a device that is lost in the middle of an event', async () => {
    const gpu = (await testGpu())!,
      running = event(gpu);
    gpu.device.destroy();
    await expect(running).rejects.toThrow(/^gpu: the device was lost/);
    await failsOn(gpu, /^gpu: the device was lost/);
  });
  test('memory that runs out, and a tensor beyond the limits, which costs nothing', async () => {
    const gpu = (await testGpu())!,
      { maxStorageBufferBindingSize: most } = gpu.device.limits,
      before = { ...gpu.ledger };
    expect(() => gpu.ops.fill({ shape: [1, most / 4 + 1], dtype: 'f32' }, 1)).toThrow(
      `gpu: a tensor of shape [1,${most / 4 + 1}] needs ${most + 4} bytes, but this adapter binds at most ${most}`,
    );
    expect({ ...gpu.ledger }).toEqual(before);
    await event(gpu);
    if (most < 2 ** 30) return gpu.destroy(); // more than SwiftShader supports
    await gpu.scope(({ ops }) => {
      ops.fill({ shape: [1, 2 ** 28], dtype: 'f32' }, 1);
    });
    await failsOn(
      gpu,
      /^gpu: a buffer did not fit into the memory of SwiftShader.*, where \d+ bytes are allocated \(.*OUT_OF_DEVICE_MEMORY.*\): open another device, with smaller buffers or fewer$/,
    );
  });
});
