import { commonHeads } from '@kv/engine';
import { freeze } from '@kv/core';
import { cpu } from '@kv/cpu';
import { compile } from '@kv/core/engine';
import type { Policy } from '@kv/core';
import { generate, Sequence } from '@kv/models';
import type { Model } from '@kv/models';
import { parsePolicy, policy as policyOf, policyNames } from '@kv/policies';
import { inTurn } from '@kv/model-testing/in-turn';
import { expect, vi } from 'vitest';
import { gpuRuntime } from '../src/index.ts';
import { byTurns, gpuTests } from './device.ts';
import { golden } from './goldens.ts';
import { both, fixture, onDevice, relative, said } from './sequences.ts';

/** KV_FULL=1 runs every policy of the catalogue, and more generations in a row. */
const FULL = process.env['KV_FULL'] === '1';
const gpuTest = await gpuTests(),
  oneOf = byTurns(gpuTest, ['embedded', 'repetition']);
/** Ids none of which comes twice: equal tokens have keys that score the same. */
const distinct = (n: number): number[] => Array.from({ length: n }, (_, i) => (i * 37 + 11) % 64);

const small: Readonly<Record<string, Readonly<Record<string, number>>>> = {
  snapkv: { window: 8 },
  pyramidkv: { window: 8 },
  pyramidal: { window: 8 },
  adakv: { window: 8 },
  h2o: { recent: 4 },
  chunkkv: { size: 4, window: 8 },
  snapkvCaote: { window: 8 },
  snapkvFastCaote: { window: 8 },
  snapkvMerge: { window: 8 },
  lagkv: { sinks: 2, lag: 5 },
  taFast: { slots: 2 },
  fullTa: { reach: 3, slots: 2 },
  cake: { window: 8 },
  cakeScores: { window: 8 },
  worstCaseAttention: { window: 8 },
  dynamickv: { window: 8 },
  rkv: { window: 4 },
  alpha: { window: 8 },
  quest: { page: 4, slots: 16 },
  doubleSparsity: { channels: 4, window: 8, slots: 16 },
  topKOracle: { slots: 16 },
  criticalkv: { window: 8 },
  defensivekv: { window: 8 },
  layerDefensivekv: { window: 8 },
  cpe: { budget: 16, sinks: 2, local: 4, block: 2 },
  h2oCaote: { recent: 4 },
  h2oFastCaote: { recent: 4 },
  h2oJoint: { recent: 4 },
  crystalcache: { sinks: 1, recent: 4, maxSize: 6 },
  crystalcacheBreath: { sinks: 1, recent: 4, maxSize: 6, interval: 3 },
  finch: { question: 6 },
  questionAttention: { question: 6 },
  dropkv: { window: 6 },
  entropyChunkkv: { size: 4, low: 2, window: 8 },
  lazyEviction: { recent: 4, every: 3 },
  phases: { window: 8, each: 4, recent: 2 },
  recurrence: { recent: 4 },
  shotkv: { window: 4, every: 3, share: 0.9 }, // so that both events while decoding evict
};
/** Policies not compared: keys of one token, generated again, score the same; or the policy needs a sidecar file. */
const NOT = [
  'knorm',
  'leverage',
  'triattention',
  'futureQueryScores',
  'alphaTriattention',
  'expectedAttentionStats',
  'qfilter',
  'gate',
  'learnRank',
];
const offered = FULL
  ? policyNames.filter((name) => !NOT.includes(name))
  : inTurn(['streaming', 'snapkvCaote', 'tova', 'adakv', 'criticalkv', 'quest', 'expectedAttention', 'compactor'], 2);
/** A question too long for a small model's context. */
const WIDE = ['kvzip', 'kvzipModelWide'];

/**
 * Events that are read: of a policy whose budgets follow from scores one a layer while the prompt passes, else one for
 * all layers.
 */
const reads =
  (policy: Policy, layers: number, decoding: number) =>
  ({ events = 0, providerPasses = 0 }: Readonly<Record<string, number>>): number => {
    const { steps, reach, needsFullPrompt, needs } = compile(policy),
      layerwise =
        reach !== 'model' &&
        !needsFullPrompt &&
        steps.some(({ kind, plan }) => kind === 'allocator' && plan === undefined);
    // the text is cut on the host, by edges that are read first
    if (needs.some(({ id }) => id === 'crystalcache.co-attention')) return events + providerPasses;
    return layerwise ? (events - decoding) * layers + decoding : events;
  };

for (const name of offered)
  gpuTest(`${name} runs on the device alone, and keeps what the host keeps`, (gpu) =>
    both(gpu, WIDE.includes(name) ? golden('llama') : fixture('llama'), async (host, device) => {
      const policy = policyOf(name, small[name]),
        options = { ids: distinct(48), policy, budget: 16, block: 24, every: 3, maxNewTokens: 7 },
        want = await generate(host, options);
      const got = await onDevice(gpu, device, options, reads(policy, device.config.layers, 2));
      expect(got.tokens).toEqual(want.tokens);
      expect(said(got.report)).toEqual(said(want.report));
      // the host keeps statistics of the last queries in addition to its caches
      expect(got.report.bytes.peak).toBeLessThanOrEqual(want.report.bytes.peak);
    }),
  );

for (const name of inTurn(['snapkvCaote', 'criticalkv', 'quest', 'snapkvMerge'], 2))
  gpuTest(`${name} keeps over a cache of 8 bits what it keeps on the host`, (gpu) =>
    both(gpu, fixture('llama'), async (host, device) => {
      const policy = policyOf(name, small[name]),
        options = {
          ids: distinct(48),
          policy,
          budget: 16,
          block: 24,
          every: 3,
          maxNewTokens: 7,
          cache: 'q8',
        } as const,
        want = await generate(host, options),
        got = await onDevice(gpu, device, options, reads(policy, device.config.layers, 2));
      expect(got.tokens).toEqual(want.tokens);
      expect(said(got.report)).toEqual(said(want.report));
    }),
  );

gpuTest('pieces read keys and values of one layer at a time as f32, which are freed after each step', (gpu) =>
  both(gpu, fixture('llama'), async (_, device) => {
    const { layers } = device.config,
      { kvHeads, headDim } = commonHeads(device.config),
      sequence = new Sequence(device, undefined, { cache: 'q8' }),
      { ledger } = sequence.memory,
      use = ledger.use.bind(ledger);
    let [most, all] = [0, 0];
    vi.spyOn(ledger, 'use').mockImplementation((name, bytes) => {
      use(name, bytes);
      if (name === 'decoded') [most, all] = [Math.max(most, ledger.entry(name).live), all + bytes];
    });
    const merge = policyOf('snapkvMerge', { window: 8 }),
      part = kvHeads * headDim * 4;
    await sequence.prefill(distinct(39), { policies: [merge], policy: policyOf('quest', small['quest']) });
    await sequence.step(1);
    expect(most).toBe(part * 40); // the view reads keys
    await sequence.evict(merge, 12); // of all layers together
    expect(most).toBe(2 * part * 40);
    expect(all).toBeGreaterThan(layers * most);
    expect(ledger.entry('decoded')).toMatchObject({ live: 0, allocated: 0 });
    sequence.destroy();
  }),
);

oneOf('repetition')('KVzip+ weighs a repetition by hidden states and output products as the host does', (gpu) =>
  both(gpu, golden('llama'), async (host, device) => {
    const policy = parsePolicy('kvzip(sinks=2,plus=true) ∘ topK'),
      options = { ids: distinct(48), policy, budget: 16, maxNewTokens: 2 };
    const [want, got] = [await generate(host, options), await generate(device, options)];
    expect(said(got.report)).toEqual(said(want.report));
    expect(got.report.kept).not.toEqual(
      (await generate(host, { ...options, policy: parsePolicy('kvzip(sinks=2) ∘ topK') })).report.kept,
    );
  }),
);

oneOf('embedded')('the embedded model, without a policy', (gpu) =>
  both(gpu, 'embedded', async (host, device) => {
    const options = { prompt: 'Once upon a time', maxNewTokens: 4, stopAtEos: false },
      got = await onDevice(gpu, device, options, () => 0);
    expect(got.text).toBe((await generate(host, options)).text);
    expect(got.spent.submits).toBe(4);
    const ids = { ids: Array.from({ length: 34 }, (_, i) => (i * 37 + 11) % 1024), maxNewTokens: 0, logits: 1 },
      [[want], [row]] = [(await generate(host, ids)).logits!, (await generate(device, ids)).logits!];
    expect(relative(row, want)).toBeLessThan(1e-4);
  }),
);

gpuTest('decode stays flat: dispatches and bytes a token at 16 times the context are those at the budget', (gpu) =>
  both(gpu, fixture('llama'), async (_, device) => {
    const spent = [];
    for (const n of [32, 512]) {
      const sequence = new Sequence(device, undefined, { window: 1024 });
      await sequence.prefill(
        Array.from({ length: n }, (_, i) => (i * 5) % 64),
        { policy: policyOf('streaming'), budget: 16, block: 16 },
      );
      const steps: object[] = [];
      for (let step = 0; step < 12; step++) {
        const { dispatches, submits, readbacks, bytes } = { ...gpu.counters };
        await sequence.step(await sequence.next(), 6);
        steps.push({
          dispatches: gpu.counters.dispatches - dispatches,
          submits: gpu.counters.submits - submits,
          readbacks: gpu.counters.readbacks - readbacks,
          bytes: gpu.counters.bytes - bytes,
          live: gpu.ledger.live,
          cache: sequence.memory.ledger.bytes().allocated,
        });
      }
      spent.push(steps.slice(6));
      sequence.destroy();
    }
    expect(spent[1]).toEqual(spent[0]);
  }),
);

for (const copies of inTurn([false, true], 2))
  gpuTest(`positions frozen in prefill keep what the layer before had, ${copies ? 'keys too' : 'projected'}`, (gpu) =>
    both(gpu, fixture('llama'), async (host, device) => {
      const frozen = freeze('early', { copies: () => copies }, () => ({ sinks: 3, below: 20 }))(),
        h2o = policyOf('h2o', { recent: 4 });
      const [want, got] = await Promise.all(
        [host, device].map(async (model) => {
          const sequence = new Sequence(model);
          await sequence.prefill(distinct(30), { policy: frozen, policies: [h2o], block: 14, rows: 20 });
          const rows = await sequence.logits();
          await sequence.evict(h2o, 12);
          const kept = sequence.kept();
          sequence.destroy();
          return { rows, kept };
        }),
      );
      for (const [i, row] of want.rows.entries()) expect(relative(got.rows[i], row)).toBeLessThan(2e-5);
      expect(got.rows).toHaveLength(20);
      expect(got.kept).toEqual(want.kept);
    }),
  );

gpuTest(
  'a seeded draw on the device: its id alone comes back, another seed draws others, a tiny nucleus is greedy',
  (gpu) =>
    both(gpu, fixture('llama'), async (_, device) => {
      const drawn = async (more: object): Promise<readonly number[]> =>
        (await onDevice(gpu, device, { ids: [1, 2], maxNewTokens: 6, temperature: 1.5, ...more }, () => 0)).tokens;
      expect(await drawn({ seed: 7 })).toEqual(await drawn({ seed: 7 }));
      expect(await drawn({ seed: 7 })).not.toEqual(await drawn({ seed: 8 }));
      expect(await drawn({ topP: 1e-9 })).toEqual(await drawn({ temperature: 0 }));
    }),
);

gpuTest('generations in a row leave memory as it was', (gpu) =>
  both(gpu, fixture('llama'), async (_, device) => {
    const once = (): PromiseLike<unknown> =>
      generate(device, {
        ids: distinct(8),
        policy: policyOf('snapkv', { window: 2 }),
        budget: 4,
        maxNewTokens: 1,
      });
    for (let i = 0; i < 3; i++) await once();
    const { live, allocated, buffers } = { ...gpu.ledger };
    for (let i = 0; i < (FULL ? 1000 : 15); i++) await once();
    expect(gpu.ledger).toMatchObject({ live, allocated, buffers });
  }),
);

gpuTest('a fork goes its own way, whole or cut, and a question over what was kept is answered as on the host', (gpu) =>
  both(gpu, fixture('llama'), async (host, device) => {
    const went = async (model: Model): Promise<unknown[]> => {
      const source = new Sequence(model),
        plain = new Sequence(model),
        out: unknown[] = [];
      await source.prefill(distinct(30), { policy: policyOf('h2o', { recent: 4 }), budget: 12 });
      await plain.prefill(distinct(20));
      const fork = source.fork(),
        cut = plain.fork(9);
      await fork.append([3, 4, 5]);
      await cut.append([7, 8]);
      for (const sequence of [fork, source, cut])
        for (let i = 0; i < 4; i++) await sequence.step(await sequence.next(), 2);
      out.push(
        ...[fork, source, cut, plain].map((sequence) => [
          sequence.kept(),
          { ...sequence.memory.ledger.bytes(), peak: 0 },
          sequence.progress.length,
        ]),
      ); // a cut copies on the host first
      for (const sequence of [fork, source, cut, plain]) sequence.destroy();
      return out;
    };
    expect(await went(device)).toEqual(await went(host));
  }),
);

gpuTest('what a sequence on a device does not offer is said in one sentence, before anything is fed', (gpu) =>
  both(gpu, fixture('llama'), async (_, device) => {
    await generate(device, { ids: [1], maxNewTokens: 0 }); // the embedding goes up with the first tokens
    const { live } = gpu.ledger;
    await expect(
      generate(device, {
        ids: distinct(24),
        policy: parsePolicy('taFast(anchors=learned)'),
        budget: 8,
        maxNewTokens: 1,
      }),
    ).rejects.toThrowErrorMatchingInlineSnapshot(
      `[KvError: gpu: sequences on a device do not show hidden states to the host, which the signal confidences reads: expected a policy without it, or a model on the CPU]`,
    );
    await expect(generate(device, { ids: [64] })).rejects.toThrowErrorMatchingInlineSnapshot(
      `[KvError: ids: must be whole numbers below 64, got 64]`,
    );
    await expect(generate(device, { ids: [1], backend: cpu })).rejects.toThrow(/^backend: expected none .* got cpu/);
    expect(() => gpuRuntime(gpu, { attendFrom: 8 } as object)).toThrow(/^gpuRuntime: .*attendFrom/);
    expect(gpu.ledger.live).toBe(live);
  }),
);
