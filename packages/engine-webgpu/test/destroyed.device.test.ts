import { openGpu } from '@kv/gpu';
import type { Gpu } from '@kv/gpu';
import { createPrefixStore, generate, loadModel, Sequence } from '@kv/models';
import type { Model } from '@kv/models';
import { parsePolicy, policy } from '@kv/policies';
import { expect } from 'vitest';
import { gpuRuntime } from '../src/index.ts';
import { gpuTests } from './device.ts';
import { fixture } from './sequences.ts';

const gpuTest = await gpuTests(),
  DESTROYED = 'gpu: the backend was destroyed: open another one',
  ids = Array.from({ length: 24 }, (_, i) => (i * 37 + 11) % 64);

/** Runs a model on a `Gpu` of its own, which `run` destroys, and expects that nothing is left. */
async function destroyedIn(
  gpu: Gpu,
  name: string,
  run: (model: Model, own: Gpu) => Promise<readonly Sequence[]>,
): Promise<void> {
  const own = await openGpu({ device: gpu.device }),
    model = await loadModel(fixture(name), { runtime: gpuRuntime(own) });
  for (const { memory } of await run(model, own))
    expect(memory.ledger.bytes()).toMatchObject({ allocated: 0, live: 0 });
  model.destroy();
  expect(own.ledger).toMatchObject({ live: 0, allocated: 0, buffers: 0 });
}

gpuTest('a device that is destroyed before its sequences: they are freed all the same', async (gpu) => {
  for (const [name, text] of [
    ['llama', 'h2o(recent=4) | topK'],
    ['llama', 'streaming | topK | levels(q8=1)'],
    ['lfm2', undefined],
  ] as const)
    await destroyedIn(gpu, name, async (model, own) => {
      const sequence = new Sequence(model, undefined, { snapshots: 2 });
      await sequence.prefill(ids, text === undefined ? {} : { policy: parsePolicy(text), budget: 8, block: 8 });
      const copy = sequence.fork();
      await copy.step(await copy.next(undefined, { ahead: 2 }));
      await copy.next(undefined, { ahead: 2 });
      own.destroy();
      await expect(sequence.step(1)).rejects.toThrow(DESTROYED);
      for (const each of [sequence, copy, sequence]) each.destroy();
      return [sequence, copy];
    });
});

gpuTest('a device that is destroyed before a prefix store', (gpu) =>
  destroyedIn(gpu, 'llama', async (model, own) => {
    const store = createPrefixStore(model, { maxBytes: 1e6 });
    await store.add(ids);
    const sequence = await store.sequence([...ids, 1]);
    own.destroy();
    store.destroy();
    sequence.destroy();
    return [sequence];
  }),
);

gpuTest('a device that is destroyed while a sequence generates', async (gpu) => {
  for (const inFlight of [1, 3])
    await destroyedIn(gpu, 'llama', async (model, own) => {
      const running = expect(generate(model, { ids, maxNewTokens: 60, inFlight, stopAtEos: false })).rejects.toThrow(
        DESTROYED,
      );
      while (own.counters.readbacks < 4) await new Promise((resolve) => setTimeout(resolve, 0));
      own.destroy();
      await running;
      return [];
    });
});

gpuTest('next after rows of 0 says so, as on the host', (gpu) =>
  destroyedIn(gpu, 'llama', async (model, own) => {
    const sequence = new Sequence(model);
    await sequence.prefill(ids, { rows: 0 });
    await expect(sequence.next()).rejects.toThrow('next: expected logits of the last token fed, got none: rows was 0');
    sequence.destroy();
    own.destroy();
    return [sequence];
  }),
);

gpuTest('what events change of the slots that are kept is noted as on the host', async (gpu) => {
  const host = await loadModel(fixture('llama'));
  for (const of of [policy('streamingRerotated'), parsePolicy('snapkv(window=4) | topK | merge'), policy('streaming')])
    await destroyedIn(gpu, 'llama', async (model, own) => {
      const [want, got] = [new Sequence(host), new Sequence(model)];
      for (const sequence of [want, got]) await sequence.prefill(ids.slice(0, 16), { policy: of, budget: 8 });
      expect(got.progress.unaltered).toBe(want.progress.unaltered);
      want.destroy();
      got.destroy();
      own.destroy();
      return [got];
    });
  host.destroy();
});
