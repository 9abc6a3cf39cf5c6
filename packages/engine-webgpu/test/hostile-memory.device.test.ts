import { KvError } from '@kv/core';
import { openGpu } from '@kv/gpu';
import { loadModel, Sequence } from '@kv/models';
import { policy as named } from '@kv/policies';
import { inTurn } from '@kv/model-testing/in-turn';
import { expect } from 'vitest';
import { gpuRuntime } from '../src/index.ts';
import { gpuTests } from './device.ts';
import { fixture } from './sequences.ts';

const gpuTest = await gpuTests(),
  IDS = Array.from({ length: 24 }, (_, i) => (i * 37 + 11) % 64),
  policy = named('snapkv', { window: 4 });

/** A run on a device of its own whose buffer number `at` is one that no device makes; how many buffers it asked for. */
async function without(at: number): Promise<number> {
  const gpu = await openGpu(),
    { device } = gpu,
    create = device.createBuffer.bind(device);
  let made = 0;
  device.createBuffer = (wanted) =>
    create(made++ === at ? { ...wanted, size: 4 * (device.limits.maxBufferSize + 4) } : wanted);
  const run = async (): Promise<void> => {
    const model = await loadModel(fixture('llama'), { runtime: gpuRuntime(gpu) }),
      sequence = new Sequence(model);
    try {
      await sequence.prefill(IDS, { policy, budget: 8, block: 8 });
      await sequence.step(1);
      await sequence.logits();
    } finally {
      sequence.destroy();
      expect(sequence.memory.ledger.bytes()).toMatchObject({ allocated: 0, live: 0 });
      model.destroy();
    }
  };
  const error: unknown = await run().then(
    () => undefined,
    (cause: unknown) => cause,
  );
  if (made > at) {
    expect(KvError.is(error), `${at}: ${String(error)}`).toBe(true);
    expect((error as Error).message).toMatch(/gpu: [^\n]*: open another device[^\n]*$/);
  } else expect(error).toBe(undefined);
  gpu.destroy();
  expect(gpu.ledger).toMatchObject({ live: 0, allocated: 0, buffers: 0 });
  return made;
}

gpuTest('a device that makes no buffer at some point: a sentence, and all is given back', async () => {
  const all = await without(Infinity);
  expect(all).toBeGreaterThan(20);
  // a device a buffer takes its time: KV_FUZZ tries them all
  const points = Array.from({ length: all }, (_, at) => at);
  for (const at of process.env.KV_FUZZ === undefined ? inTurn(points, all) : points) await without(at);
});
