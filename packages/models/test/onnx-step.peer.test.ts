import { compose, id, view, type Policy } from '@kv/core';
import { adaKV } from '@kv/allocators-ada-kv';
import { snapkv } from '@kv/scorers-attention';
import { pageBounds } from '@kv/scorers-retrieval';
import { topK } from '@kv/selectors-top-k';
import { describe, expect, test } from 'vitest';
import { createPrefixStore, loadModel, Sequence, type HostModel } from '../src/index.ts';
import { onnxEngine } from '@kv/engine-onnx';
import { parseConfig, type Weights } from '@kv/checkpoints';
import { createDecoder, hostRunning, type HostDecoder, freeObservations } from '@kv/engine';
import { families, fixture, fixtureJson, goldenOutputs, hasExperts, hasOnlyAttention } from '@kv/model-testing/fixture';
import { inTurn } from '@kv/model-testing/in-turn';
import { ort } from '@kv/model-testing/ort';
import { relative } from '@kv/engine-testing/run';

/** Returns the same model with attention and what follows it as separate calls. */
const layerwise = (model: HostModel): HostModel => {
  const { decoder } = model;
  const apart: HostDecoder = {
    ...decoder,
    attendAndFinish: async (layer, x, attention, ...rest) =>
      decoder.finish(layer, x, await decoder.attend(attention), ...rest),
  };
  return { ...model, ...hostRunning(apart, model) };
};
const open = (name: string): Promise<HostModel> =>
  loadModel(fixture(name), { engine: onnxEngine(ort, { threads: 2 }) });

/**
 * Compares tokens after a prompt on either path: logits within 1e-5 of the largest, the same slots, the same counts.
 */
async function compare(one: Sequence, other: Sequence, tokens: readonly number[]): Promise<void> {
  const before = [one, other].map(({ memory }) => memory.caches.context.counters.fused);
  for (const token of tokens) {
    await one.step(token);
    await other.step(token);
    expect(relative((await one.logits())[0], (await other.logits())[0])).toBeLessThan(1e-5);
  }
  expect(one.kept()).toEqual(other.kept());
  expect(one.memory.ledger.bytes().live).toBe(other.memory.ledger.bytes().live);
  expect(one.memory.progress.mostSlots).toBe(other.memory.progress.mostSlots);
  expect(one.memory.caches.context.counters.fused - before[0]).toBe(
    other.memory.caches.context.counters.fused - before[1],
  );
}

const ragged: Policy = compose(snapkv({ window: 4 }), adaKV(), topK());

test('a model with routed experts is refused in one sentence, before its weights are read', async () => {
  const config = parseConfig(fixtureJson('qwen3_moe/config.json'), 'config.json'),
    none = new Proxy({} as Weights, {
      get: (_, name) => {
        throw new Error(`read ${String(name)}`);
      },
    });
  await expect(createDecoder(config, none, onnxEngine(ort))).rejects.toThrow(
    'onnxEngine: expected a model without routed experts, got qwen3_moe with 7 in a layer: ',
  );
});

const all = families.filter((name) => hasOnlyAttention(name) && !hasExperts(name)),
  chosen = inTurn(all, 3);
describe.each(chosen)('%s: attention of a token inside its layer is what both give apart', (name) => {
  test.each([
    ['full', id, undefined],
    ['ragged', ragged, 12],
  ] as const)('over a %s cache that grows, and over copies of it', async (_, policy, budget) => {
    const model = await open(name),
      { ids } = goldenOutputs(name, '.')[0],
      prompt = [...ids, ...ids].slice(0, 24);
    const start = async (of: HostModel): Promise<Sequence> => {
      const sequence = new Sequence(of);
      await sequence.prefill(prompt, { policy, budget, block: 10 });
      freeObservations(sequence);
      return sequence;
    };
    const pair = [await start(model), await start(layerwise(model))] as const;
    if (budget !== undefined && name === 'llama')
      expect(
        new Set(
          pair[0]
            .kept()
            .flat()
            .map((slots) => slots.length),
        ).size,
      ).toBeGreaterThan(1);
    const forks = [pair[0].fork(), pair[1].fork()] as const;
    await compare(...pair, ids.slice(0, 12));
    await compare(...forks, ids.slice(3, 8));
    for (const sequence of [...pair, ...forks]) sequence.destroy();
    model.destroy();
  });
});

test('past the window, after a prefix, under a view, and with queries that are remembered', async () => {
  const model = await open('llama'),
    plain = layerwise(model),
    { ids } = goldenOutputs('llama', '.')[0];
  const moved = [model, plain].map((of) => new Sequence(of, undefined, { window: 24 })) as [Sequence, Sequence];
  for (const sequence of moved) await sequence.prefill(ids.slice(0, 20), { policy: ragged, budget: 10, block: 10 });
  for (const sequence of moved) freeObservations(sequence);
  await compare(...moved, ids.slice(0, 9)); // 29 tokens: the kept slots were moved together
  const shared = [];
  for (const of of [model, plain]) {
    const store = createPrefixStore(of, { maxBytes: 1e8 });
    await store.add(ids.slice(0, 12));
    shared.push(await store.sequence([...ids.slice(0, 12), ...ids.slice(2, 6)]));
  }
  await compare(shared[0], shared[1], ids.slice(0, 4));
  const quest = view(compose(pageBounds({ page: 4 }), topK()), { budget: 8 });
  const seen = [new Sequence(model), new Sequence(plain)] as const;
  for (const sequence of seen) await sequence.prefill(ids.slice(0, 20), { policy: quest });
  await compare(...seen, ids.slice(0, 6));
  const watched = new Sequence(model);
  await watched.prefill(ids.slice(0, 16), { policies: [ragged] });
  await watched.step(ids[0]);
  await watched.evict(ragged, 8); // with queries that were remembered to the end
  expect(watched.active.last!.kept.flat().every((slots) => slots.includes(16))).toBe(true);
  model.destroy();
});
