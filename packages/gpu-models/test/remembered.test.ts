import { openGpu } from '@kv/gpu';
import { policies } from '@kv/policies';
import { generate, loadModel, Sequence } from '@kv/models';
import type { Model } from '@kv/models';
import { expect } from 'vitest';
import { gpuEngine } from '../src/index.ts';
import { gpuTests } from './device.ts';
import { both, fixture, relative } from './sequences.ts';

const gpuTest = await gpuTests();
const ids = (n: number): number[] => Array.from({ length: n }, (_, i) => (i * 37 + 11) % 64);
const h2o = policies['h2o']!.make({ recent: 4 }), window = [policies['tova']!.make(), policies['snapkv']!.make({ window: 6 })];

/** What every layer scores by running sums and by windows, at every turn of a life: single tokens, blocks, events, forks. */
async function scores(model: Model): Promise<readonly Float32Array[]> {
  const sequence = new Sequence(model), all: Float32Array[] = [];
  const look = async (of: Sequence, policies = [h2o, ...window]): Promise<void> => {
    for (const policy of policies) for (let l = 0; l < model.config.layers; l++) all.push(...await of.scores(policy, l));
  };
  await sequence.prefill(ids(26), { policy: h2o, budget: 20, block: 13, policies: window });
  await look(sequence);
  for (const token of [5, 9, 9]) await sequence.step(token); // each waits for the next
  await look(sequence);
  for (const token of [7, 8]) await sequence.step(token);
  await sequence.append([3, 4]); // a block finds one that waits
  await sequence.append([30, 31, 32, 33, 34, 35, 36]);
  await sequence.step(12);
  await look(sequence, window);
  await sequence.step(13, 8); // an event is due, and none waits
  await look(sequence);
  for (const token of [14, 15]) await sequence.step(token);
  const fork = sequence.fork();
  await fork.step(20);
  await sequence.evict(h2o, 12);
  await look(sequence);
  await look(fork);
  for (const each of [sequence, fork]) each.destroy();
  return all;
}

// a soft cap, and layers of sliding windows and of all positions by turns
gpuTest("running sums and windows are the host's at every turn", (gpu) => both(gpu, fixture('gemma2'), async (host, device) => {
  const want = await scores(host), got = await scores(device);
  expect(got.map(({ length }) => length)).toEqual(want.map(({ length }) => length));
  for (const [i, row] of want.entries()) expect(relative(got[i]!, row), `row ${i}`).toBeLessThan(5e-5);
}));

gpuTest('running sums take no dispatch but the join that leaves a query; a window reads values only where slots went since its queries', (gpu) => both(gpu, fixture('llama'), async (_, device) => {
  const [tova] = window as [typeof h2o], counted = async (run: () => PromiseLike<unknown>): Promise<{ dispatches: number; bytes: number }> => {
    const { dispatches, bytes } = { ...gpu.counters };
    await run();
    return { dispatches: gpu.counters.dispatches - dispatches, bytes: gpu.counters.bytes - bytes };
  };
  const opened = async (policy?: typeof h2o): Promise<Sequence> => {
    const sequence = new Sequence(device);
    await sequence.prefill(ids(20), policy && { policies: [policy] });
    for (const token of [1, 2]) await sequence.step(token);
    return sequence;
  };
  const [plain, summed, windowed] = [await opened(), await opened(h2o), await opened(tova)];
  const { dispatches } = await counted(() => plain.step(3));
  expect((await counted(() => summed.step(3))).dispatches).toBe(dispatches + device.config.layers);
  const known = await counted(() => windowed.scores(tova, 0));
  await windowed.evict(tova, 21);
  expect((await counted(() => windowed.scores(tova, 0))).bytes).toBeGreaterThan(known.bytes); // of one slot less
  for (const sequence of [plain, summed, windowed]) sequence.destroy();
}));

gpuTest('timestamps tell an event from the model', async () => {
  const gpu = await openGpu({ timestamps: 'kernels' }), model = await loadModel(fixture('llama'), { engine: gpuEngine(gpu, { resident: true }) });
  await generate(model, { ids: ids(20), policy: window[0]!, budget: 12, maxNewTokens: 2 });
  const times = await gpu.timings(), of = (label: string): string[] => times.filter((t) => t.label === label && t.nanoseconds > 0).map(({ kernel }) => kernel.split(':').slice(0, 2).join(':'));
  expect(of('event')).toEqual(expect.arrayContaining(['model:columns', 'select', 'model:compact']));
  expect(of('event')).not.toContain('model:attention');
  expect(of('')).toEqual(expect.arrayContaining(['model:attention', 'model:append']));
  expect(times.every(({ label }) => label === '' || label === 'event')).toBe(true);
  model.decoder.destroy();
  gpu.destroy();
});
