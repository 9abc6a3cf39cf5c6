/** Layers that read the slots of an earlier layer, on a device as on the host. */
import { compose, keys, scorer } from '@kv/core';
import type { PlacedQueries, Signal } from '@kv/core';
import { denseRows, matrixOf, type Weights } from '@kv/checkpoints';
import { hostRuntime, referenceEngine, type Runtime } from '@kv/engine';
import type { Gpu } from '@kv/gpu';
import { generate, loadCache, loadModel, saveCache, Sequence, type Model, type ModelConfig } from '@kv/models';
import { parsePolicy } from '@kv/policies';
import { topK } from '@kv/selectors-top-k';
import { expect } from 'vitest';
import { gpuRuntime } from '../src/index.ts';
import { gpuTests } from './device.ts';
import { golden } from './goldens.ts';
import { json, relative, said } from './sequences.ts';

/** KV_FULL=1 runs every policy; else KV_TURN chooses one (.ci/run takes another one for each commit). */
const FULL = process.env['KV_FULL'] === '1';
const gpuTest = await gpuTests();
const folder = golden('llama'),
  ids = json<{ ids: number[] }>(`${folder}/golden.json`).ids.slice(0, 29);
/** Whose slots each layer reads: the event of layer 1 comes before that of layer 0. */
const SLOTS_OF = [0, 1, 1, 0];

/** Loads the golden Llama, of two KV heads, as a model whose layers share slots. */
async function shared(runtime: Runtime): Promise<Model> {
  let config: ModelConfig | undefined;
  const model = await loadModel(folder, {
    runtime: {
      ...runtime,
      start: ({ weights, ...source }) => {
        const { queryHeads, hidden, mixers } = source.config,
          readers = SLOTS_OF.map((own, l) => own !== l);
        config = {
          ...source.config,
          mixers: mixers.map((mixer, l) =>
            mixer.kind === 'attention' && readers[l] ? { ...mixer, slotsOf: SLOTS_OF[l] } : mixer,
          ),
        };
        const own: Weights = {
          ...weights,
          project: async (l) => {
            const all = await weights.project(l),
              rows = queryHeads * 16;
            return readers[l] ? { ...all, qkv: matrixOf(denseRows(all.qkv, 0, rows).slice(), rows, hidden) } : all;
          },
        };
        return runtime.start({ ...source, config, weights: own });
      },
    },
  });
  return { ...model, config: config! }; // set by `start`
}

async function sharing(gpu: Gpu, run: (host: Model, device: Model) => Promise<void>): Promise<void> {
  const models = [await shared(hostRuntime({ engine: referenceEngine() })), await shared(gpuRuntime(gpu))] as const;
  try {
    await run(...models);
  } finally {
    for (const model of models) model.destroy();
  }
}

/** Some queries of a model that reads its context again. */
const again: Signal<'again', PlacedQueries> = {
  id: 'again',
  as: 'again',
  cost: 'pass',
  provide: (engine, layer) => engine.queriesOf(engine.ids, [0, 7, 20, 28], layer),
};
const rereading = scorer('rereading', { needs: [again, keys] }, ({ ops, at, again: { queries: q }, keys: k }) => {
  const [H = 1, w = 1, d = 1] = q.shape;
  return ops.groupRows('max', ops.dot(ops.reshape(q, [H * w, d]), k), at.kvHeads);
});
/** What events, views and providers observe: sums of blocks and of all queries, windows, the newest query, values, rotations. */
const POLICIES = [
  ['sum(h2o(recent=4,over=block),h2o(recent=4)) ∘ caote ∘ topK', 7],
  ['snapkv(window=4)', 64],
  ['quest(page=4,slots=16)', 7],
  ['tovaCaote', 7],
  ['streamingRerotated', 64],
  ['kvzip', 64],
  [compose(rereading(), topK()), 64],
  ['etf(psi=0.5,sinks=2)', 7],
  ['crystalcacheBreath(sinks=1,recent=4,maxSize=6,interval=4)', 64],
] as const;
const turn = Number(process.env['KV_TURN'] || 0) % POLICIES.length;
gpuTest('events, views and providers of layers that share slots are those of the host', (gpu) =>
  sharing(gpu, async (host, device) => {
    for (const [of, block] of FULL ? POLICIES : [POLICIES[turn]]) {
      const policy = typeof of === 'string' ? parsePolicy(of) : of,
        text = policy.label,
        options = { ids, policy, budget: 12, block, every: 3, maxNewTokens: 6, logits: 7 },
        want = await generate(host, options),
        got = await generate(device, options);
      expect(got.tokens, text).toEqual(want.tokens);
      expect(said(got.report), text).toEqual(said(want.report));
      for (const [i, row] of want.logits!.entries()) expect(relative(got.logits![i], row), text).toBeLessThan(2e-5);
    }
  }),
);

if (FULL)
  gpuTest('steps ahead, copies and saved caches of layers that share slots are those of the host', (gpu) =>
    sharing(gpu, async (host, device) => {
      const options = { ids, maxNewTokens: 8 },
        want = await generate(host, options);
      for (const inFlight of [1, 3]) {
        const got = await generate(device, { ...options, inFlight });
        expect([got.tokens, said(got.report)]).toEqual([want.tokens, said(want.report)]);
      }
      const policy = parsePolicy('snapkv(window=4)'),
        [one, control] = [new Sequence(device), new Sequence(host)];
      for (const each of [one, control]) await each.prefill(ids, { policy, budget: 9, block: 7 });
      const all = [
        one,
        one.fork(),
        await loadCache(device, await saveCache(control)),
        await loadCache(host, await saveCache(one)),
        control,
      ];
      for (const each of all) await each.step(7);
      for (const each of all) {
        expect(each.kept()).toEqual(control.kept());
        expect(relative((await each.logits())[0], (await control.logits())[0])).toBeLessThan(2e-5);
      }
      for (const each of all) each.destroy();
    }),
  );
