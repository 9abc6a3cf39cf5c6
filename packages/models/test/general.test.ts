import { adaKV } from '@kv/allocators-ada-kv';
import { cadence, compose, id, mandatory, view, weightScorer } from '@kv/core';
import { cpu } from '@kv/cpu';
import { traceOps } from '@kv/core/engine';
import type { Policy, Signal } from '@kv/core';
import { h2o, snapkv, streaming } from '@kv/scorers-attention';
import { kvzip } from '@kv/scorers-reconstruction';
import { etf, psaw } from '@kv/allocators-schedules';
import { pageBounds } from '@kv/scorers-retrieval';
import { sponsorship } from '@kv/scorers-sponsorship';
import { topK } from '@kv/selectors-top-k';
import { merge } from '@kv/transforms-merging';
import { branchDissolution } from '@kv/selectors-branch-dissolution';
import { clipToRange, crystallization, saliency, sentences, trunks } from '@kv/units-trunks';
import { beforeAll, describe, expect, test } from 'vitest';
import { generate, loadModel, Sequence, slotScores } from '../src/index.ts';
import type { GenerateResult, HostModel } from '../src/index.ts';
import { twoLevel } from './general/trunks.ts';
import { reference, referenceJson } from '@kv/model-testing/reference';

let model: HostModel, ids: number[], plain: GenerateResult;
/** Quest. */
const quest = ({ budget }: { budget: number }): Policy => view(compose(pageBounds(), topK()), { budget });
const answer = (policy: Policy, options: object = {}): PromiseLike<GenerateResult> =>
  generate(model, { ids, policy, maxNewTokens: 12, ...options });
beforeAll(async () => {
  model = await loadModel(reference('data/goldens/llama'));
  ids = referenceJson<{ ids: number[] }>('data/goldens/llama/golden.json').ids;
  plain = await answer(id);
});

describe('quest: a view', () => {
  test('hides, and evicts nothing', async () => {
    const all = await answer(quest({ budget: 4096 })),
      few = await answer(quest({ budget: 16 }));
    expect(all.tokens).toEqual(plain.tokens);
    expect(few.tokens).not.toEqual(plain.tokens);
    expect(few.report.mostSlots).toBe(ids.length + 11);
  });
});

describe('PSAW: a view from layer and step alone', () => {
  test('phi = 1 hides nothing; phi = 0.7 changes the top layer only, and costs no statistics', async () => {
    expect((await answer(psaw({ phi: 1 }))).tokens).toEqual(plain.tokens);
    const run = await generate(model, { ids, policy: psaw(), maxNewTokens: 0, logits: 1 }),
      full = await generate(model, { ids, maxNewTokens: 0, logits: 1 });
    expect(run.logits![0]).not.toEqual(full.logits![0]);
    expect(run.report.counts.statistics).toBe(0);
  });
});

describe('ETF: freeze', () => {
  test.each([
    ['hidden', 240],
    ['kv', 124],
  ] as const)(
    'frozen rows are projected at most, and go through no other product of the layer, reuse=%s; psi = 1 freezes nothing',
    async (reuse, projected) => {
      const { rows } = model.decoder;
      const before = [...rows.qkv],
        gate = [...rows.gateUp];
      await generate(model, { ids, policy: etf({ psi: 0.5, reuse }), maxNewTokens: 0, logits: 240 });
      expect([...rows.qkv].map((x, l) => x - before[l])).toEqual([240, 240, 240, projected]);
      expect([...rows.gateUp].map((x, l) => x - gate[l])).toEqual([240, 240, 240, 124]);
      expect((await answer(etf({ psi: 1, reuse }))).tokens).toEqual(plain.tokens);
    },
  );

  test.each<[string, Policy]>([
    ['alone', etf({ psi: 0.5 })],
    ['its keys copied', etf({ psi: 0.5, reuse: 'kv' })],
    ['with running sums', compose(h2o(), topK(), etf({ psi: 0.5 }))],
  ])(
    'a block that a layer freezes whole goes through it too: blocks give what the whole prompt gives, %s',
    async (_, policy) => {
      const run = (block?: number): PromiseLike<GenerateResult> =>
        generate(model, { ids, policy, budget: 300, maxNewTokens: 4, logits: 1, ...(block && { block }) });
      const [whole, blocks] = [await run(), await run(40)]; // of 240 positions the top layer freezes 4 to 119
      expect(blocks.tokens).toEqual(whole.tokens);
      blocks.logits![0].forEach((x, i) => expect(Math.abs(x - whole.logits![0][i])).toBeLessThan(1e-4));
    },
  );
});

describe('Ada-KV: an allocator that reads scores, over a second event', () => {
  test('heads differ, the layer keeps its sum, and the ragged cache goes through another event', async () => {
    const policy = compose(snapkv({ window: 8 }), adaKV(), topK(), cadence({ every: 8 }));
    const { report } = await answer(policy, { budget: 60, maxNewTokens: 20 });
    expect(report.counts.events).toBe(3);
    const sizes = report.kept.map((heads) => heads.map((h) => h.length));
    for (const heads of sizes) expect(heads.reduce((a, b) => a + b)).toBe(120);
    expect(sizes.some(([a, b]) => a !== b)).toBe(true);
    expect(report.mostSlots).toBe(ids.length);
  });
});

describe('a merging compaction', () => {
  test('keeps the same slots with other values', async () => {
    const base = compose(streaming(), topK()),
      options = { budget: 40 };
    const [dropped, merged] = [await answer(base, options), await answer(compose(base, merge()), options)];
    expect(merged.report.kept).toEqual(dropped.report.kept);
    expect(merged.tokens).not.toEqual(dropped.tokens);
  });
});

describe('trunks with a two-level selector', () => {
  test('all sentences kept are whole but one', async () => {
    const sequence = new Sequence(model);
    await sequence.prefill(ids, { policy: compose(snapkv({ window: 8 }), sentences(), twoLevel()), budget: 100 });
    const { text, offsets } = sequence.progress.text;
    let s = 0;
    const of = offsets.map(([a, b]) => (/[.!?]\s*$|\n/.test(text.slice(a, b)) ? s++ : s));
    for (const heads of sequence.active.last!.kept)
      for (const kept of heads) {
        expect(kept).toHaveLength(100);
        const free = kept.filter((p) => p < ids.length - 8);
        const cut = [...new Set(free.map((p) => of[p]))].filter((u) =>
          of.some((v, p) => v === u && p < ids.length - 8 && !kept.includes(p)),
        );
        expect(cut.length).toBeLessThanOrEqual(1);
      }
    sequence.destroy();
  });
  test('CrystalCache: the first layer runs once more for all layers, and B - 2 to B slots stay', async () => {
    const policy = compose(
      saliency(),
      clipToRange(),
      mandatory({ sinks: 4, recent: 32 }),
      trunks(),
      crystallization(),
      branchDissolution(),
    );
    const { report } = await answer(policy, { budget: 120 });
    expect(report.counts.providerPasses).toBe(1);
    for (const heads of report.kept)
      for (const kept of heads) {
        expect(kept.length).toBeGreaterThanOrEqual(118);
        expect(kept.length).toBeLessThanOrEqual(120);
        expect(kept.slice(0, 4)).toEqual([0, 1, 2, 3]);
      }
  });
  test('attention rows of the provider add up to the accumulated attention of the first layer', async () => {
    const sequence = new Sequence(model),
      policy = compose(h2o({ recent: 0 }), topK());
    await sequence.prefill(ids, { policies: [policy] });
    const want = await slotScores(sequence, policy, 0),
      { queryHeads: H } = model.config,
      group = H / want.length,
      sums = Array.from({ length: H }, () => new Float64Array(ids.length));
    let seen = 0;
    const rows: Signal<'rows', number> = {
      id: 'rows',
      as: 'rows',
      cost: 'pass',
      provide: async (engine) => {
        await engine.attentionRows(0, (q, weights) => {
          expect(q).toBe(seen++ % ids.length);
          for (let h = 0; h < H; h++) for (let i = 0; i <= q; i++) sums[h][i] += weights[h * (q + 1) + i];
        });
        return seen;
      },
    };
    const zero = weightScorer('rows', { needs: [rows] }, ({ ops, at }) =>
      ops.from({ data: new Float32Array(at.slots), shape: [1, at.slots] }),
    )();
    await generate(model, { ids, policy: compose(zero, topK()), budget: 100, maxNewTokens: 0 });
    expect(seen).toBe(ids.length * model.config.layers);
    for (const [row, heads] of want.entries())
      heads.forEach((x, i) =>
        expect(
          Math.abs(
            x -
              sums.slice(row * group, (row + 1) * group).reduce((t, sum) => t + sum[i], 0) /
                group /
                model.config.layers,
          ),
        ).toBeLessThan(1e-4),
      );
    sequence.destroy();
  });
  test('unequal head budgets cut each head by itself: units are looked up by position', async () => {
    const { report } = await answer(compose(snapkv({ window: 8 }), sentences(), adaKV(), twoLevel()), { budget: 60 });
    expect(report.kept.map((heads) => heads.map((k) => k.length))).toEqual(report.budgets);
    expect(report.budgets.some(([a, b]) => a !== b)).toBe(true);
  });
});

describe('sponsorship over blocks: position state and a step hook', () => {
  test('an anchor evicted before its value still sponsors it', async () => {
    const text = `${'a b c. '.repeat(12)}password: XK7M9P2Q ${'d e f. '.repeat(20)}`;
    const { ids: tokens, offsets } = model.tokenizer.encode(text);
    const start = text.indexOf('XK7'),
      value = offsets.flatMap(([a], i) => (a >= start && a < start + 2 ? [i] : []));
    const policy = compose(sponsorship(), topK());
    for (const block of [tokens.length, 16]) {
      const { report } = await generate(model, { ids: tokens, policy, budget: 12, block, maxNewTokens: 4 });
      for (const heads of report.kept) for (const kept of heads) expect(kept).toEqual(expect.arrayContaining(value));
    }
  });
});

test('vouchers decay with every generated token, in state that a fork takes along', async () => {
  const { ids: tokens } = model.tokenizer.encode('a b c. password: XK7M9P2Q d e f.'),
    policy = compose(sponsorship(), topK()),
    sequence = new Sequence(model);
  await sequence.prefill(tokens, { policy, policies: [policy] });
  const total = async (of: Sequence): Promise<number> => (await slotScores(of, policy, 0))[0].reduce((a, b) => a + b);
  const before = await total(sequence),
    fork = sequence.fork();
  for (const token of [5, 6, 7]) await fork.step(token);
  expect(before).toBeGreaterThan(15);
  expect((await total(fork)) / before).toBeCloseTo(0.9 ** 3, 5);
  expect(await total(sequence)).toBe(before);
  for (const each of [sequence, fork]) each.destroy();
});

describe('KVzip: a signal with a second pass', () => {
  test('one pass serves all layers, and the score is the largest weight received', async () => {
    const { report } = await answer(compose(kvzip(), topK()), { budget: 60 });
    expect(report.counts.providerPasses).toBe(1);
    expect(report.kept.flat().every((k) => k.length === 60)).toBe(true);
  });
});

describe('all of them record only: an event and a view over handles that throw on any host read', () => {
  test.each([
    ['adaKV', () => compose(snapkv({ window: 8 }), adaKV(), topK())],
    ['quest', () => quest({ budget: 32 })],
    ['merge', () => compose(streaming(), topK(), merge())],
    ['twoLevel', () => compose(snapkv({ window: 8 }), sentences(), twoLevel())],
    ['kvzip', () => compose(kvzip(), topK())],
    ['sponsorship', () => compose(sponsorship(), topK())],
    ['psaw', () => psaw()],
    ['etf', () => etf()],
  ] as [string, () => Policy][])('%s', async (_, make) => {
    const trace = traceOps(cpu);
    const traced = await answer(make(), { budget: 60, maxNewTokens: 4, backend: trace.backend }),
      direct = await answer(make(), { budget: 60, maxNewTokens: 4 });
    expect(traced.tokens).toEqual(direct.tokens);
    expect(traced.report.kept).toEqual(direct.report.kept);
  });
});
