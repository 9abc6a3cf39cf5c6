import { fileURLToPath } from 'node:url';
import { beforeAll, describe, expect, test } from 'vitest';
import { compose, demotion, LEVELS, rerotate, view } from '@kv/core';
import { compile } from '@kv/core/engine';
import type { Budget, Policy } from '@kv/core';
import { levels } from '@kv/demotions-levels';
import { referenceEngine, slotBytes } from '@kv/engine';
import { snapkv, h2o } from '@kv/scorers-attention';
import { parsePolicy } from '@kv/policies';
import { pageBounds } from '@kv/scorers-retrieval';
import { topK } from '@kv/selectors-top-k';
import { cpuRuntime, generate, hostRuntime, loadCache, loadModel, saveCache, Sequence } from '../src/index.ts';
import type { Model } from '../src/index.ts';

// heads of 32 channels, which every level fits
const folder = fileURLToPath(new URL('../../model-embedded', import.meta.url)),
  G = 2,
  L = 8,
  d = 32;
const ids = Array.from({ length: 150 }, (_, i) => 2 + ((i * 37 + (i >> 3)) % 900));
let fast: Model, plain: Model;
beforeAll(async () => {
  fast = await loadModel(folder, { runtime: cpuRuntime({ exact: true }) });
  plain = await loadModel(folder, { runtime: hostRuntime({ engine: referenceEngine() }) });
});
const snap = compose(snapkv({ window: 8 }), topK()),
  quarters = compose(snapkv({ window: 8 }), topK(), levels({ f16: 0.25, q8: 0.25, q4: 0.5 }));

test('both engines keep the same slots at the same levels, in blocks, while tokens are generated and where keys are turned', async () => {
  const cases: readonly [Policy, object][] = [
    [quarters, { budget: 60 }],
    [compose(h2o({ recent: 4 }), topK(), levels({ f32: 0.1, k8v4: 0.9 })), { budget: 40, block: 48, every: 3 }],
    [compose(snapkv({ window: 8 }), topK(), levels(), rerotate()), { budget: 40, every: 4 }],
    [parsePolicy('h2o(recent=4) | topK | modelWide | levels(f16=0.2,q4=0.8)'), { budget: 40, every: 4 }],
    // pages are ranked by what a loop keeps about keys
    [compose(quarters, view(compose(pageBounds({ page: 4 }), topK()), { budget: 24 })), { budget: 60, every: 5 }],
  ];
  for (const [policy, options] of cases) {
    const [a, b] = [fast, plain].map((model) => generate(model, { ids, policy, maxNewTokens: 12, ...options }));
    const [own, want] = [await a, await b];
    expect(own.tokens).toEqual(want.tokens);
    expect(own.report.kept).toEqual(want.report.kept);
    expect(own.report.levels).toEqual(want.report.levels);
    expect(own.report.cache.liveBytes).toBe(want.report.cache.liveBytes);
    // besides, the fast engine holds what loops of a view keep about keys
    const indexed = compile(policy).hooks('view').length > 0,
      more = own.report.bytes.live - want.report.bytes.live;
    if (indexed) expect(more).toBeGreaterThan(0);
    else expect(more).toBe(0);
  }
});

test('the shares hold in every head, and the ledger counts what each level takes', async () => {
  const sequence = new Sequence(fast);
  await sequence.prefill(ids, { policy: quarters, budget: 60 });
  const all = sequence.active.last?.levels ?? [];
  for (const of of all.flat())
    expect(LEVELS.map((_, level) => of.filter((x) => x === level).length)).toEqual([0, 15, 15, 0, 30]);
  const each = 15 * slotBytes('f16', d) + 15 * slotBytes('q8', d) + 30 * slotBytes('q4', d);
  // each slot has four bytes more, by which its numbers are found
  expect(sequence.memory.ledger.entry('cache').live).toBe(L * G * (each + 4 * 60));
  sequence.destroy();
});

test('a budget in bytes holds as many more slots as levels save', async () => {
  const run = async (policy: Policy): Promise<readonly [slots: number, bytes: number]> => {
      const sequence = new Sequence(fast);
      await sequence.prefill(ids, { policy, budget: '120KiB' });
      const { live } = sequence.memory.ledger.entry('cache');
      sequence.destroy();
      return [sequence.active.budget?.slots ?? 0, live];
    },
    [[plain32, bytes32], [leveled, bytes]] = [await run(snap), await run(quarters)];
  expect([plain32, leveled]).toEqual([29, 98]);
  // however levels are shared out, over unequal heads too
  const shared = async (text: string): Promise<number> => (await run(parsePolicy(text)))[1];
  for (const each of [
    bytes32,
    bytes,
    await shared('snapkv(window=8) | topK | adaKV | levels(f16=0.25,q8=0.25,q4=0.5)'),
    await shared('snapkv(window=8) | adaKV | topK | modelWide | levels(f16=0.25,q8=0.25,q4=0.5)'),
  ]) {
    expect(each).toBeLessThanOrEqual(120 * 1024);
    expect(each).toBeGreaterThan(116 * 1024);
  }
});

test('a demotion that declares no shares keeps within a budget in bytes, and the report says how it was counted', async () => {
  // one slot in 16 bits: all others have four bytes more, by which they are found
  const one = demotion('one', {}, ({ ops, scores, kept }) =>
      ops.top(scores, ops.fill(ops.sum(kept), 1), { banned: ops.not(kept) }),
    ),
    run = async (budget: Budget) =>
      (await generate(fast, { ids, policy: compose(snapkv({ window: 8 }), topK(), one()), budget, maxNewTokens: 1 }))
        .report;
  const bytes = 60 * L * G * slotBytes('f32', d),
    { cache, kept, notes } = await run({ bytes });
  expect(kept[0][0]).toHaveLength(59);
  expect(cache.liveBytes).toBeLessThanOrEqual(bytes);
  expect(notes).toEqual(["bytes were counted in the form of the cache, as 'one' declares no shares"]);
  expect((await run(30)).notes).toEqual([]);
});

test('all of them at the finest level is the policy without levels, to the bit and the byte', async () => {
  for (const model of [fast, plain]) {
    const run = (policy: Policy) => generate(model, { ids, policy, budget: 30, maxNewTokens: 8, every: 4 }),
      [{ report, ...got }, { report: wanted, ...want }] = [
        await run(compose(snap, levels({ f32: 1 }))),
        await run(snap),
      ];
    expect(got.tokens).toEqual(want.tokens);
    expect([report.kept, report.bytes]).toEqual([wanted.kept, wanted.bytes]);
    expect(new Set(report.levels?.flat(2))).toEqual(new Set([0]));
  }
});

test('events go on demoting where every slot fits, and nothing becomes finer again', async () => {
  const sequence = new Sequence(fast),
    policy = compose(snapkv({ window: 8 }), topK(), levels({ q8: 0.5, q4: 0.5 }));
  await sequence.prefill(ids.slice(0, 60), { policy, budget: 200 });
  const first = sequence.active.last;
  await sequence.prefill(ids.slice(60, 120), { policy, budget: 200 });
  const second = sequence.active.last;
  expect(second?.kept[0][0]).toHaveLength(120);
  first?.levels?.forEach((heads, l) =>
    heads.forEach((of, g) => of.forEach((level, i) => expect(second?.levels?.[l][g][i]).toBeGreaterThanOrEqual(level))),
  );
  sequence.destroy();
});

describe('a saved cache with levels', () => {
  const saved = async () => {
    const sequence = new Sequence(fast);
    await sequence.prefill(ids.slice(0, 100), { policy: quarters, budget: 40 });
    for (const id of ids.slice(100, 104)) await sequence.step(id);
    return { sequence, bytes: await saveCache(sequence) };
  };
  test('goes on bit for bit, and so does a copy', async () => {
    const { sequence, bytes } = await saved(),
      loaded = await loadCache(fast, bytes, { policy: quarters }),
      copy = sequence.fork();
    expect(await saveCache(loaded)).toEqual(bytes);
    expect(loaded.active.last?.levels).toEqual(sequence.active.last?.levels);
    expect(loaded.memory.ledger.live).toBe(sequence.memory.ledger.live);
    const all = [sequence, loaded, copy];
    for (const each of all) {
      await each.prefill(ids.slice(110, 130));
      for (const id of ids.slice(130, 136)) await each.step(id, 3);
    }
    const want = await sequence.logits();
    for (const each of all) {
      expect(await each.logits()).toEqual(want);
      expect(each.active.last?.levels).toEqual(sequence.active.last?.levels);
      each.destroy();
      expect([each.memory.ledger.live, each.memory.ledger.allocated]).toEqual([0, 0]);
    }
  });
  test('has the levels that are stored: in a coarser form, and under a policy that goes on and demotes none', async () => {
    const { sequence, bytes } = await saved(),
      before = sequence.active.last?.levels?.flat() ?? [];
    for (const cache of ['q4', 'q8'] as const) {
      const coarser = await loadCache(fast, bytes, { cache }),
        again = await loadCache(fast, await saveCache(coarser)),
        want = before.map((of) => of.map((level) => Math.max(level, LEVELS.indexOf(cache))));
      expect([coarser, again].map(({ active }) => active.last?.levels?.flat())).toEqual([want, want]);
    }
    const at = sequence.active.last!;
    await sequence.evict(snap, 30);
    const { kept, levels: after } = sequence.active.last!;
    kept.forEach((heads, l) =>
      heads.forEach((positions, g) =>
        positions.forEach((position, i) =>
          // tokens after the first event are stored in the cache's form
          expect(after?.[l][g][i]).toBe(at.levels?.[l][g][at.kept[l][g].indexOf(position)] ?? 0),
        ),
      ),
    );
    const loaded = await loadCache(fast, await saveCache(sequence));
    expect(loaded.active.last?.levels).toEqual(after);
  });
  test('goes on where slots have levels in some layers only, and others were moved', async () => {
    const some = demotion('some', {}, ({ ops, kept, at }) => ops.fill(kept, at.layer % 2 === 0 ? 0 : 4));
    for (const cache of ['q8', 'k8v4'] as const) {
      const sequence = new Sequence(fast, undefined, { cache, window: 64 });
      await sequence.prefill(ids.slice(0, 100), { policy: snap, budget: 24, block: 20 });
      await sequence.evict(compose(snap, some()), 20);
      const loaded = await loadCache(fast, await saveCache(sequence), { policy: compose(snap, some()) });
      expect(loaded.memory.cache.liveBytes).toBe(sequence.memory.cache.liveBytes);
      for (const id of ids.slice(100, 150)) for (const each of [sequence, loaded]) await each.step(id, 5);
      expect(await loaded.logits()).toEqual(await sequence.logits());
      expect(await saveCache(loaded)).toEqual(await saveCache(sequence));
      for (const each of [sequence, loaded]) each.destroy();
    }
  });
  test('is refused where its levels are not what it says, or finer than its form', async () => {
    const { sequence, bytes } = await saved(),
      text = new TextDecoder('latin1').decode(bytes),
      changed = (from: string, to: string): Uint8Array => {
        expect(text.includes(from)).toBe(true);
        expect(to).toHaveLength(from.length);
        return Uint8Array.from(text.replace(from, to), (c) => c.charCodeAt(0));
      };
    sequence.destroy();
    const refused = (other: Uint8Array, sentence: RegExp) => expect(loadCache(fast, other)).rejects.toThrow(sentence);
    await refused(
      changed('\\"form\\":\\"f32\\"', '\\"form\\":\\"f16\\"'),
      /^saved cache: expected levels no finer than f16, got f32$/,
    );
    await refused(
      changed('\\"levels\\":[8,20,', '\\"levels\\":[9,20,'),
      /^saved cache: expected 5 counts of levels, of 88 slots, got others$/,
    );
    await refused(
      changed('\\"levels\\":[8,20,', '\\"levels\\":[9,19,'),
      /^saved cache: expected the header of a saved cache/,
    );
  });
});

test('levels that heads do not fit, and shares that are no whole, are one sentence, and nothing happens', async () => {
  const sequence = new Sequence(
      await loadModel(fileURLToPath(new URL('../../model-testing/data/goldens/llama', import.meta.url))),
    ),
    policy = compose(snapkv({ window: 4 }), topK(), levels({ q8: 0.5, q4: 0.5 }));
  await expect(sequence.prefill([2, 3, 4, 5, 6, 7], { policy, budget: 5 })).rejects.toThrow(
    "policy: q4 stores heads of a multiple of 32 channels, the model's have 16: leave this level out",
  );
  expect(sequence.progress.length).toBe(0);
  sequence.destroy();
});
