import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { openGpu } from '@kv/gpu';
import type { Gpu } from '@kv/gpu';
import { limitedDevice } from '@kv/gpu-testing';
import type { LowLimits } from '@kv/gpu-testing';
import { loadModel, saveCache, Sequence } from '@kv/models';
import type { Model } from '@kv/models';
import { writeTinyModel } from '@kv/model-testing';
import { parsePolicy } from '@kv/policies';
import fc from 'fast-check';
import { afterAll, expect } from 'vitest';
import { gpuRuntime } from '../src/index.ts';
import { gpuTests } from './device.ts';

const gpuTest = await gpuTests(),
  folder = mkdtempSync(join(tmpdir(), 'limits-')),
  path = writeTinyModel(folder);
afterAll(() => {
  rmSync(folder, { recursive: true });
});
/** Bytes of the keys of a slot in all heads, and of a row of logits. */
const SLOT = 2 * 8 * 4,
  LOGITS = 258 * 4;
const ids = (n: number): number[] => Array.from({ length: n }, (_, i) => (i * 37 + 11) % 258);

/** Runs the tiny model on a device that has these limits. */
async function within<T>(gpu: Gpu, limits: LowLimits, run: (model: Model, low: Gpu) => Promise<T>): Promise<T> {
  const low = await openGpu({ device: limitedDevice(gpu.device, limits) }),
    model = await loadModel(path, { runtime: gpuRuntime(low) });
  try {
    return await run(model, low);
  } finally {
    model.destroy();
    low.destroy();
  }
}

gpuTest('a cache takes all slots that the device binds, and what does not fit is refused before it changes', (gpu) =>
  fc.assert(
    fc.asyncProperty(fc.integer({ min: 70, max: 100 }), fc.integer({ min: 9, max: 17 }), async (most, block) => {
      const want = await within(gpu, {}, async (model) => {
        const sequence = new Sequence(model);
        await sequence.prefill(ids(most), { block });
        const logits = await sequence.logits();
        sequence.destroy();
        return logits;
      });
      await within(gpu, { maxStorageBufferBindingSize: SLOT * most }, async (model) => {
        const sequence = new Sequence(model);
        await sequence.prefill(ids(most - 1), { block });
        await sequence.step(ids(most)[most - 1]);
        const full = `cache: must fit the storage of a layer, ${most} slots in each head on this adapter, got ${most + 1}: give a policy a smaller budget, feed smaller blocks, or store slots in fewer bits ('cache')`;
        await expect(sequence.step(1)).rejects.toThrow(full);
        await expect(sequence.prefill([1])).rejects.toThrow(full);
        const [logits] = await sequence.logits();
        for (const [i, x] of logits.entries()) expect(x).toBeCloseTo(want[0][i], 4);
        expect(sequence.kept()[0][0].length).toBe(most);
        sequence.destroy();
        expect(sequence.memory.ledger.bytes()).toMatchObject({ allocated: 0, live: 0 });
      });
    }),
    { numRuns: 2 },
  ),
);

gpuTest('what is recorded of slots, and slots at levels, grow up to the limit too', (gpu) =>
  within(gpu, { maxStorageBufferBindingSize: SLOT * 60 }, async (model) => {
    for (const [text, budget] of [
      ['snapkv(window=20) | topK', 20],
      ['h2o(recent=4) | topK', 12],
      ['streaming | topK | levels(q8=1)', 12],
    ] as const) {
      const sequence = new Sequence(model);
      await sequence.prefill(ids(14), { policy: parsePolicy(text), budget });
      const before = sequence.kept()[0][0].length;
      let [steps, refused]: [number, unknown] = [0, undefined];
      while (refused === undefined)
        await sequence.step(7).then(
          () => steps++,
          (error: unknown) => (refused = error),
        );
      const [, most] =
        /^KvError: cache: must fit the storage of a layer, (\d+) slots in each head/.exec(String(refused)) ?? [];
      expect(before + steps).toBe(Number(most));
      expect(steps).toBeGreaterThan(20);
      expect((await sequence.logits()).length).toBe(1);
      sequence.destroy();
    }
  }),
);

gpuTest('a window of more queries than the device binds is refused before it changes anything', (gpu) =>
  within(gpu, { maxStorageBufferBindingSize: SLOT * 60 }, async (model) => {
    const sequence = new Sequence(model);
    await sequence.prefill(ids(14), { policy: parsePolicy('snapkv(window=40) | topK') }); // a query is two slots long
    for (let i = 0; i < 16; i++) await sequence.step(7);
    await expect(sequence.step(7)).rejects.toThrow(
      'cache: must fit the last queries that a policy reads in a layer, 30 on this adapter, got 31: give the policy a smaller window',
    );
    expect((await sequence.logits()).length).toBe(1);
    expect(sequence.progress.length).toBe(30);
    sequence.destroy();
  }),
);

gpuTest('logits of more rows than the device binds together', async (gpu) => {
  const logits = (limits: LowLimits, count: number, rows: number): Promise<readonly Float32Array[]> =>
    within(gpu, limits, async (model) => {
      const sequence = new Sequence(model);
      await sequence.prefill(ids(count), { rows });
      const read = await sequence.logits();
      await sequence.step(await sequence.next());
      sequence.destroy();
      return read;
    });
  for (const [count, rows, most] of [
    [120, 120, 100],
    [120, 90, 100],
    [100, 100, 33],
    [120, 61, 30],
  ]) {
    const [want, got] = [
      await logits({}, count, rows),
      await logits({ maxStorageBufferBindingSize: LOGITS * most }, count, rows),
    ];
    expect(got.length).toBe(rows);
    for (const [r, row] of got.entries()) for (const [i, x] of row.entries()) expect(x).toBeCloseTo(want[r][i], 4);
  }
});

gpuTest('a cache larger than a buffer is saved, in one read', async (gpu) => {
  const saved = (limits: LowLimits): Promise<Uint8Array> =>
    within(gpu, limits, async (model, { counters }) => {
      const sequence = new Sequence(model);
      await sequence.prefill(ids(200), { block: 20 });
      await sequence.logits();
      const { readbacks } = counters,
        file = await saveCache(sequence);
      expect(counters.readbacks - readbacks).toBe(1);
      sequence.destroy();
      return file;
    });
  expect(await saved({ maxBufferSize: 65_536, maxStorageBufferBindingSize: SLOT * 256 })).toEqual(await saved({}));
});
