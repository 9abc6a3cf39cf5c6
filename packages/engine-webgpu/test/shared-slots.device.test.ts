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
import { json, relative, said } from './sequences.ts';

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

async function both(gpu: Gpu, run: (host: Model, device: Model) => Promise<void>): Promise<void> {
  const models = [await shared(hostRuntime({ engine: referenceEngine() })), await shared(gpuRuntime(gpu))] as const;
  try {
    await run(...models);
  } finally {
    for (const model of models) model.destroy();
  }
}

/** What events, views and providers observe: sums by head and KV head, windows, the newest query, values, states. */
const POLICIES = [
  'h2o(recent=4)',
  'snapkv(window=4)',
  'tova',
  'tovaCaote',
  'quest',
  'kvzip',
  'etf(psi=0.5,sinks=2)',
  'streaming',
];
for (const text of POLICIES)
  gpuTest(`${text}: tokens, logits and report as on the host`, (gpu) =>
    both(gpu, async (host, device) => {
      for (const block of [7, 64]) {
        const options = { ids, policy: parsePolicy(text), budget: 12, block, every: 3, maxNewTokens: 6, logits: 7 },
          want = await generate(host, options),
          got = await generate(device, options);
        expect(got.tokens).toEqual(want.tokens);
        expect(said(got.report)).toEqual(said(want.report));
        for (const [i, row] of want.logits!.entries()) expect(relative(got.logits![i], row)).toBeLessThan(2e-5);
      }
    }),
  );
