import { openGpu } from '@kv/gpu';
import { attentionMax, attentionWindow, compose, scorer } from '@kv/core';
import type { Policy, Signal, Tensor } from '@kv/core';
import { numbers } from '@kv/gpu-testing';
import { policy as policyOf } from '@kv/policies';
import { topK } from '@kv/selectors-top-k';
import { generate, loadModel, Sequence, slotScores } from '@kv/models';
import { Ledger, commonHeads } from '@kv/engine';
import type { Model } from '@kv/models';
import { inTurn } from '@kv/model-testing/in-turn';
import { expect } from 'vitest';
import { gpuRuntime } from '../src/index.ts';
import { attendLayer } from '../src/sequence/layer-attention.ts';
import { DeviceCache } from '../src/sequence/cache.ts';
import { DeviceLayer } from '../src/sequence/layer.ts';
import { gpuTests } from './device.ts';
import { both, fixture, relative } from './sequences.ts';

const gpuTest = await gpuTests();
const ids = (n: number): number[] => Array.from({ length: n }, (_, i) => (i * 37 + 11) % 64);
const h2o = policyOf('h2o', { recent: 4 }),
  byKvHead = policyOf('h2o', { recent: 4, rows: 'kv' }),
  window = [policyOf('tova'), policyOf('snapkv', { window: 6 })];
const probe = (signal: Signal<'attention'>): Policy =>
  compose(scorer('probe', { needs: [signal] }, ({ attention }) => attention)(), topK());
/** Every statistic of a window, of more queries than there are, and of one. */
const statistics = [
  attentionMax(6),
  ...(['squares', 'votes', 'normalized', 'entropy'] as const).flatMap((of) =>
    [6, 100, 1].map((w) => attentionWindow(w, of)),
  ),
].map(probe);

/**
 * What every layer scores by running sums and by windows, at every turn of a life: single tokens, blocks, events,
 * forks.
 */
async function scores(
  model: Model,
  h2o: Policy,
  others: readonly Policy[],
  windows: readonly Policy[],
): Promise<readonly Float32Array[]> {
  const sequence = new Sequence(model),
    all: Float32Array[] = [];
  const look = async (of: Sequence, policies: readonly Policy[] = [h2o, ...others, ...windows]): Promise<void> => {
    for (const policy of policies)
      for (let l = 0; l < model.config.layers; l++) all.push(...(await slotScores(of, policy, l)));
  };
  await sequence.prefill(ids(26), { policy: h2o, budget: 20, block: 13, policies: [...others, ...windows] });
  await look(sequence);
  for (const token of [5, 9, 9]) await sequence.step(token); // each waits for the next
  await look(sequence);
  for (const token of [7, 8]) await sequence.step(token);
  await sequence.append([3, 4]); // a block finds one that waits
  await sequence.append([30, 31, 32, 33, 34, 35, 36]);
  await sequence.step(12);
  await look(sequence, windows);
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
for (const [name, policy, others, windows] of inTurn(
  [
    ['query head', h2o, [], [...window, ...statistics]],
    ['KV head', byKvHead, [], window],
    ['either', byKvHead, [h2o], window],
  ] as const,
  2,
))
  gpuTest(`running sums by ${name} and windows are the host's at every turn`, (gpu) =>
    both(gpu, fixture('gemma2'), async (host, device) => {
      const want = await scores(host, policy, others, windows),
        got = await scores(device, policy, others, windows);
      expect(got.map(({ length }) => length)).toEqual(want.map(({ length }) => length));
      for (const [i, row] of want.entries()) expect(relative(got[i], row), `row ${i}`).toBeLessThan(5e-5);
    }),
  );

gpuTest('a prompt after another one widens windows, and begins sums of query heads again, as on the host', (gpu) =>
  both(gpu, fixture('gemma2'), async (host, device) => {
    const run = async (model: Model): Promise<readonly Float32Array[]> => {
      const sequence = new Sequence(model),
        all: Float32Array[] = [],
        narrow = policyOf('snapkv', { window: 3 }),
        wide = policyOf('snapkv', { window: 9 });
      await sequence.prefill(ids(14), { policy: narrow, budget: 12, policies: [byKvHead] });
      for (const token of [5, 9]) await sequence.step(token);
      await sequence.prefill(ids(4), { policy: wide, budget: 14, policies: [h2o] });
      for (const policy of [wide, h2o])
        for (let l = 0; l < model.config.layers; l++) all.push(...(await slotScores(sequence, policy, l)));
      sequence.destroy();
      return all;
    };
    const [want, got] = [await run(host), await run(device)];
    for (const [i, row] of want.entries()) expect(relative(got[i], row), `row ${i}`).toBeLessThan(5e-5);
  }),
);

gpuTest(
  'running sums take no dispatch but the join that leaves a query; a window reads values only where slots went since its queries',
  (gpu) =>
    both(gpu, fixture('llama'), async (_, device) => {
      const [tova] = window as [typeof h2o],
        counted = async (run: () => PromiseLike<unknown>): Promise<{ dispatches: number; bytes: number }> => {
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
      const [plain, summed, grouped, windowed] = [
          await opened(),
          await opened(h2o),
          await opened(byKvHead),
          await opened(tova),
        ],
        { layers, queryHeads: H } = device.config,
        { kvHeads: G } = commonHeads(device.config);
      const { dispatches } = await counted(() => plain.step(3));
      const [byQuery, byKv] = [await counted(() => summed.step(3)), await counted(() => grouped.step(3))];
      expect([byQuery.dispatches, byKv.dispatches]).toEqual([dispatches + layers, dispatches + layers]);
      expect(byQuery.bytes - byKv.bytes).toBe(layers * 2 * 4 * (H - G) * 23);
      expect(summed.memory.ledger.entry('statistics').live / grouped.memory.ledger.entry('statistics').live).toBe(
        H / G,
      );
      const known = await counted(() => slotScores(windowed, tova, 0));
      await windowed.evict(tova, 21);
      expect((await counted(() => slotScores(windowed, tova, 0))).bytes).toBeGreaterThan(known.bytes); // of one slot less
      for (const sequence of [plain, summed, grouped, windowed]) sequence.destroy();
    }),
);

gpuTest(
  'a KV head that serves more query heads than a workgroup has rows sums them from stored scores',
  async (gpu) => {
    const [H, G, d, tokens] = [40, 2, 4, 6],
      fold = H / G,
      scope = gpu.open(),
      { commands } = scope,
      want = new Float64Array(G * tokens);
    const device = { scope, ledger: new Ledger() },
      layer = new DeviceLayer({ queryHeads: H, kvHeads: G, headDim: d }, device, new DeviceCache(G, d, device, 'f32')),
      k = numbers(1, tokens * G * d),
      q = numbers(2, tokens * H * d);
    layer.observe({ window: 0, accumulated: 'kv', block: false });
    for (let p = 0; p < tokens; p++) {
      const own = (x: Float32Array, heads: number): Tensor =>
          commands.upload(x.slice(p * heads * d, (p + 1) * heads * d), [heads, 1, d]),
        rows = commands.upload(Uint32Array.of(p), [1]),
        key = own(k, G),
        { cache } = layer;
      cache.grow(1);
      cache.append(key, key, rows, [p], [p]);
      layer.accumulated!.grow(p + 1);
      attendLayer(
        commands,
        layer,
        {
          m: 1,
          heads: H,
          kvHeads: G,
          headDim: d,
          q: own(q, H),
          keys: cache.keys,
          values: cache.values,
          positions: cache.positions,
          lengths: cache.lengths,
          capacity: cache.capacity,
          slots: p + 1,
          rows,
          views: 0,
          scale: 0.5,
        },
        { at: Uint32Array.of(p), first: true, read: false },
      );
      for (let h = 0; h < H; h++) {
        const g = Math.floor(h / fold),
          weights = Array.from({ length: p + 1 }, (_, j) =>
            Math.exp(
              0.5 *
                Array.from({ length: d }, (__, c) => q[(p * H + h) * d + c] * k[(j * G + g) * d + c]).reduce(
                  (a, b) => a + b,
                  0,
                ),
            ),
          );
        weights.forEach((w, j) => {
          want[g * tokens + j] += w / weights.reduce((a, b) => a + b, 0);
        });
      }
    }
    const [sums] = await scope.read([layer.accumulated!.dense(commands, tokens)]);
    expect(layer.waiting).toBeUndefined();
    expect(relative(sums.data, want)).toBeLessThan(1e-4);
    layer.destroy();
    scope.end();
  },
);

gpuTest('timestamps tell an event from the model', async () => {
  const gpu = await openGpu({ timestamps: 'kernels' }),
    model = await loadModel(fixture('llama'), { runtime: gpuRuntime(gpu) });
  await generate(model, { ids: ids(20), policy: window[0], budget: 12, maxNewTokens: 2 });
  const times = await gpu.timings(),
    of = (label: string): string[] =>
      times
        .filter((t) => t.label === label && t.nanoseconds > 0)
        .map(({ kernel }) => kernel.split(':').slice(0, 2).join(':'));
  expect(of('event')).toEqual(expect.arrayContaining(['model:columns', 'select', 'model:compact']));
  expect(of('event')).not.toContain('model:attention');
  expect(of('')).toEqual(expect.arrayContaining(['model:attention', 'model:append']));
  expect(times.every(({ label }) => label === '' || label === 'event')).toBe(true);
  model.destroy();
  gpu.destroy();
});
