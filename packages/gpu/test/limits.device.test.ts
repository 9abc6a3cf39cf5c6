import { limitedDevice, numbers } from '@kv/gpu-testing';
import type { LowLimits } from '@kv/gpu-testing';
import fc from 'fast-check';
import { expect } from 'vitest';
import { openGpu } from '../src/index.ts';
import type { Gpu } from '../src/index.ts';
import { gpuTests } from './device.ts';

const gpuTest = await gpuTests();

/** Runs on a `Gpu` of its own whose device has these limits. */
async function within(gpu: Gpu, limits: LowLimits, run: (low: Gpu) => Promise<void>): Promise<void> {
  const low = await openGpu({ device: limitedDevice(gpu.device, limits) });
  try {
    await run(low);
  } finally {
    low.destroy();
    expect(low.ledger).toMatchObject({ live: 0, allocated: 0, buffers: 0 });
  }
}

gpuTest('whatever fits the limits of buffers and bindings is computed and read, in parts', (gpu) =>
  fc.assert(
    fc.asyncProperty(
      fc.integer({ min: 65_600, max: 300_000 }),
      fc.integer({ min: 65_600, max: 300_000 }),
      fc.array(fc.double({ min: 0, max: 1, noNaN: true }), { minLength: 1, maxLength: 6 }),
      (maxBufferSize, maxStorageBufferBindingSize, shares) =>
        within(gpu, { maxBufferSize, maxStorageBufferBindingSize }, async (low) => {
          const most = Math.floor(Math.min(maxBufferSize, maxStorageBufferBindingSize) / 4),
            all = [1, ...shares].map((share, i) => numbers(i + 1, Math.floor(share * most))),
            { submits, readbacks } = low.counters;
          const read = await low.scope(({ ops, read }) =>
            read(all.map((data) => ops.add(ops.from({ data, shape: [1, data.length] }), 1))),
          );
          expect(read.map(({ data }) => data)).toEqual(all.map((data) => data.map((x) => x + 1)));
          expect([low.counters.submits - submits, low.counters.readbacks - readbacks]).toEqual([1, 1]);
          expect(() => low.ops.fill({ shape: [1, most + 1], dtype: 'f32' }, 1)).toThrow(
            `gpu: a tensor of shape [1,${most + 1}] needs ${4 * most + 4} bytes, but this adapter binds at most ${4 * most}: expected a smaller one`,
          );
        }),
    ),
    { numRuns: 20 },
  ),
);

gpuTest('parts of a read are of one moment, though commands follow it', (gpu) =>
  within(gpu, { maxBufferSize: 65_536 }, async (low) => {
    const { commands, read, end } = low.open(),
      all = [1, 2, 3].map((x) => commands.upload(new Float32Array(16_384).fill(x), [16_384])),
      reading = read(all);
    for (const x of all) commands.write(x, new Float32Array(16_384), 0);
    expect((await reading).map(({ data }) => [...new Set(data)])).toEqual([[1], [2], [3]]);
    end();
  }),
);
