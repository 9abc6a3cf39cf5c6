/** Layers that read the slots of an earlier layer, on a device as on the host. */
import { denseRows, matrixOf, type Weights } from '@kv/checkpoints';
import { hostRuntime, referenceEngine, stepTogether, type Runtime } from '@kv/engine';
import type { Gpu } from '@kv/gpu';
import { generate, loadCache, loadModel, saveCache, Sequence, type Model, type ModelConfig } from '@kv/models';
import { parsePolicy } from '@kv/policies';
import { expect } from 'vitest';
import { gpuRuntime } from '../src/index.ts';
import { gpuTests } from './device.ts';
import { golden } from './goldens.ts';
import { both, fixture, json, relative, said } from './sequences.ts';

/** KV_FULL=1 runs every kind of policy. */
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

/** What events, views and providers observe: sums by KV head and head, windows, the newest query, values, rotations. */
const POLICIES: readonly (readonly [policy: string, block: number])[] = [
  ['h2oCaote(recent=4)', 7],
  ['snapkv(window=4)', 64],
  ['quest(page=4,slots=16)', 7],
  ...(FULL
    ? ([
        ['h2o(recent=4)', 7],
        ['tovaCaote', 7],
        ['streamingRerotated', 64],
        ['kvzip', 64],
        ['etf(psi=0.5,sinks=2)', 7],
        ['crystalcacheBreath(sinks=1,recent=4,maxSize=6,interval=4)', 64],
      ] as const)
    : []),
];
gpuTest('events, views and providers of layers that share slots are those of the host', (gpu) =>
  sharing(gpu, async (host, device) => {
    for (const [text, block] of POLICIES) {
      const policy = parsePolicy(text),
        options = { ids, policy, budget: 12, block, every: 3, maxNewTokens: 6, logits: 7 },
        want = await generate(host, options),
        got = await generate(device, options);
      expect(got.tokens, text).toEqual(want.tokens);
      expect(said(got.report), text).toEqual(said(want.report));
      for (const [i, row] of want.logits!.entries()) expect(relative(got.logits![i], row), text).toBeLessThan(2e-5);
    }
  }),
);

gpuTest('steps ahead of layers that share slots are those of the host', (gpu) =>
  sharing(gpu, async (host, device) => {
    const options = { ids, maxNewTokens: 8 },
      want = await generate(host, options);
    for (const inFlight of [1, 3]) {
      const got = await generate(device, { ...options, inFlight });
      expect([got.tokens, said(got.report)]).toEqual([want.tokens, said(want.report)]);
    }
  }),
);

gpuTest('gemma4: forks, saved caches, frozen tokens and batches are those of the host', (gpu) =>
  both(gpu, fixture('gemma4'), async (host, device) => {
    const policy = parsePolicy('snapkv(window=4)'),
      tokens = (n: number): number[] => Array.from({ length: n }, (_, i) => (i * 37 + 11) % 64),
      fed = async (model: Model, n: number): Promise<Sequence> => {
        const sequence = new Sequence(model);
        await sequence.prefill(tokens(n), { policy, budget: 9, block: 7 });
        return sequence;
      },
      near = async (ours: Sequence, theirs: Sequence): Promise<void> => {
        expect(ours.kept()).toEqual(theirs.kept());
        expect(relative((await ours.logits())[0], (await theirs.logits())[0])).toBeLessThan(2e-5);
      };
    const [one, control] = [await fed(device, 22), await fed(host, 22)],
      [copy, loaded] = [one.fork(), await loadCache(device, await saveCache(control))],
      back = await loadCache(host, await saveCache(one));
    for (const each of [one, copy, loaded, back, control]) await each.step(7);
    for (const each of [one, copy, loaded, back]) await near(each, control);
    const some = [one, copy, await fed(device, 13)],
      alone = some.map((sequence) => sequence.fork()),
      given = some.map((sequence, i) => ({ sequence, token: 11 + i }));
    expect(await stepTogether(given)).toEqual(some.map(() => undefined));
    for (const [i, each] of alone.entries()) {
      await each.step(11 + i);
      expect(await some[i].logits()).toEqual(await each.logits());
    }
    for (const each of [...some, ...alone, loaded, back, control]) {
      each.destroy();
      expect(each.memory.ledger.allocated).toBe(0);
    }
    // no step goes ahead: a token's row of the table is read once the token is known
    const options = { ids: tokens(24), policy: 'etf(psi=0.5,sinks=2)', maxNewTokens: 4, logits: 5, inFlight: 2 },
      [ours, theirs] = [await generate(device, options), await generate(host, options)];
    expect([ours.tokens, said(ours.report)]).toEqual([theirs.tokens, said(theirs.report)]);
    for (const [i, row] of theirs.logits!.entries()) expect(relative(ours.logits![i], row)).toBeLessThan(2e-5);
  }),
);
