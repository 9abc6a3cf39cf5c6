import { fileURLToPath } from 'node:url';
import { compose } from '@kv/core';
import { compile } from '@kv/core/engine';
import { forkPrefix, longestPrefix } from '@kv/engine';
import { parsePolicy } from '@kv/policies';
import { snapkv } from '@kv/scorers-attention';
import { topK } from '@kv/selectors-top-k';
import fc from 'fast-check';
import { beforeAll, describe, expect, test } from 'vitest';
import { createPrefixStore, loadCache, loadModel, saveCache, Sequence } from '../src/index.ts';
import type { HostModel } from '../src/index.ts';
import { fixture } from '@kv/model-testing/fixture';
import { relative } from '@kv/engine-testing/run';
import { reference, referenceJson } from '@kv/model-testing/reference';

let model: HostModel, ids: number[];
beforeAll(async () => {
  model = await loadModel(reference('data/goldens/llama'));
  ({ ids } = referenceJson<{ ids: number[] }>('data/goldens/llama/golden.json'));
});
/** Returns the bytes of a full cache of n tokens: 4 layers, 2 heads of 16. */
const full = (n: number): number => n * 4 * 2 * 4 * (2 * 16 + 1);
const rows = (): number => model.decoder.rows.qkv[0];

describe('whole caches', () => {
  test('the prefix is not computed again, and the answer is that of a run of its own', async () => {
    const store = createPrefixStore(model, { maxBytes: full(400) }),
      [system, a, b] = [ids.slice(0, 50), ids.slice(50, 60), ids.slice(90, 105)];
    await store.add([...system, ...a]);
    for (const [prompt, reused] of [
      [[...system, ...b], 50],
      [[...system, ...a, ...b], 60],
      [[...system, ...a], 59],
      [system, 49],
      [ids.slice(3, 9), 0],
    ] as const) {
      const before = rows(),
        taken = store.counts.reused,
        sequence = await store.sequence(prompt),
        own = new Sequence(model);
      expect([rows() - before, store.counts.reused - taken]).toEqual([prompt.length - reused, reused]);
      await own.prefill(prompt.slice(0, reused || prompt.length));
      if (reused > 0) await own.append(prompt.slice(reused));
      expect(sequence.kept()).toEqual(own.kept());
      expect(sequence.progress.text.text).toBe(own.progress.text.text);
      const [[row], [alone]] = [await sequence.logits(), await own.logits()];
      row.forEach((x, i) => expect(Math.abs(x - alone[i])).toBeLessThan(1e-5));
      for (const each of [sequence, own]) {
        each.destroy();
        expect(each.memory.ledger.allocated).toBe(0);
      }
    }
    store.destroy();
    expect(store.bytes).toBe(0);
  });
  test('the same ids are stored once, also if they are added at the same time', async () => {
    const store = createPrefixStore(model, { maxBytes: full(400) }),
      a = ids.slice(0, 30);
    const added = [store.add(a), store.add([...a]), store.add([...a, 5]), store.add([-1])];
    await expect(added.pop()).rejects.toThrow();
    await Promise.all(added);
    expect(store.counts).toMatchObject({ fed: 31, reused: 60 });
    const late = [store.add(ids.slice(40, 50)), store.add(ids.slice(60, 70))];
    store.destroy();
    const outcomes = await Promise.allSettled(late);
    expect(outcomes.map(({ status }) => status)).toEqual(['rejected', 'rejected']);
    expect(store.bytes).toBe(0);
  });
  test('what was used least recently is dropped, and bytes stay within the bound', async () => {
    const store = createPrefixStore(model, { maxBytes: full(75) }),
      [a, b, c] = [ids.slice(0, 30), ids.slice(40, 70), ids.slice(80, 110)];
    await store.add(a);
    await store.add(b);
    (await store.sequence([...a, 5])).destroy();
    await store.add(c);
    expect(store.bytes).toBeLessThanOrEqual(full(75));
    expect(store.counts).toEqual({ fed: 91, reused: 30, dropped: 1 });
    for (const [prefix, found] of [
      [a, 30],
      [c, 30],
      [b, 0],
    ] as const) {
      const taken = store.counts.reused;
      (await store.sequence([...prefix, 5])).destroy();
      expect(store.counts.reused - taken).toBe(found);
    }
    await store.add(ids.slice(0, 200));
    expect([store.bytes, store.counts.dropped]).toEqual([0, 4]);
    store.destroy();
  });
});

test('compacted prefixes are shared whole or not at all, and equal a document evicted by itself', async () => {
  const policy = compose(snapkv({ window: 8 }), topK()),
    store = createPrefixStore(model, { maxBytes: full(100), policy, budget: 20, block: 16 });
  const [document, question] = [ids.slice(0, 80), ids.slice(100, 108)];
  await store.add(document);
  expect(store.bytes).toBeLessThan(full(80));
  const before = rows(),
    sequence = await store.sequence([...document, ...question]),
    own = new Sequence(model);
  expect(rows() - before).toBe(question.length);
  await own.prefill(document, { policy, budget: 20, block: 16 });
  await own.append(question);
  expect(await sequence.logits()).toEqual(await own.logits());
  expect(sequence.kept()).toEqual(own.kept());
  const other = await store.sequence([...document.slice(0, 70), ...question]);
  expect(store.counts.reused).toBe(80);
  for (const each of [sequence, own, other]) each.destroy();
  store.destroy();
});
test('errors name the option', () => {
  expect(() => createPrefixStore(model, { maxBytes: -1 })).toThrow('maxBytes: must be a whole number of bytes, got -1');
  expect(() => createPrefixStore(model, { maxBytes: 1, policy: compose(snapkv(), topK()) })).toThrow(
    'evicts, so a budget is expected',
  );
});

test("a prompt on the other side of LongRoPE's switch shares nothing, and is what it would be without the store", async () => {
  const phi3 = await loadModel(fixture('phi3')),
    { beyond } = phi3.config.ropes[0].long!,
    prompt = Array.from({ length: beyond + 8 }, (_, i) => 3 + ((7 * i) % 58));
  const store = createPrefixStore(phi3, { maxBytes: 1e9 });
  await store.add(prompt.slice(0, beyond - 4));
  for (const [length, reused] of [
    [beyond, beyond - 4],
    [beyond + 1, 0],
    [beyond + 8, 0],
  ] as const) {
    const before = store.counts.reused,
      sequence = await store.sequence(prompt.slice(0, length)),
      alone = new Sequence(phi3);
    await alone.prefill(prompt.slice(0, length));
    expect(store.counts.reused - before).toBe(reused);
    expect(relative((await sequence.logits())[0], (await alone.logits())[0])).toBeLessThan(1e-5);
    for (const each of [sequence, alone]) each.destroy();
  }
  await store.add(prompt);
  for (const [length, reused] of [
    [beyond + 8, beyond + 7],
    [beyond + 4, 0], // its window's slots are gone
    [beyond, beyond - 4],
  ] as const) {
    const before = store.counts.reused;
    (await store.sequence(prompt.slice(0, length))).destroy();
    expect(store.counts.reused - before).toBe(reused);
  }
  store.destroy();
  phi3.destroy();
});

describe('another prompt begins with what a prompt without a policy leaves', async () => {
  const embedded = await loadModel(fileURLToPath(new URL('../../model-embedded', import.meta.url))),
    text = Array.from({ length: 86 }, (_, i) => 2 + ((i * 37 + (i >> 3)) % 900)),
    fresh = async (prompt: readonly number[]): Promise<Float32Array> => {
      const own = new Sequence(embedded);
      await own.prefill(prompt);
      const [row] = await own.logits();
      own.destroy();
      return row;
    };

  test('whatever the sequence was read under, whose positions it protects, and however it was kept', async () => {
    const ways = [
      'knorm | topK',
      'knorm | topK | levels(q4=1)',
      'etf',
      'etf(reuse=kv)',
      'psaw',
      'streaming',
      undefined,
    ];
    const shares = new Map<string | undefined, number>();
    type Drawn = typeof drawn extends fc.Arbitrary<infer T> ? T : never;
    const drawn = fc.record({
      policy: fc.constantFrom(...ways),
      steps: fc.integer({ min: 0, max: 2 }),
      common: fc.integer({ min: 17, max: 88 }),
      more: fc.integer({ min: 1, max: 12 }),
      saved: fc.boolean(),
    });
    const run = async ({ policy, steps, common, more, saved }: Drawn): Promise<void> => {
      let sequence = new Sequence(embedded);
      sequence.protect([[0, 20]]);
      await sequence.prefill(text, {
        policy,
        ...(policy && compile(parsePolicy(policy)).evicts && { budget: '100%' }),
      });
      if (steps > 0) sequence.decodeUnder(parsePolicy('psaw'));
      for (let i = 0; i < steps; i++) await sequence.step(7);
      if (saved) {
        const bytes = await saveCache(sequence);
        sequence.destroy();
        sequence = await loadCache(embedded, bytes);
      }
      const prompt = [...sequence.progress.text.ids.slice(0, common), ...text.slice(0, more).map((id) => id + 1)],
        found = longestPrefix([{ sequence, inParts: sequence.progress.length }], prompt, 8);
      shares.set(policy, Math.max(shares.get(policy) ?? 0, found?.shared ?? 0));
      if (found) {
        const fork = forkPrefix(sequence, found.shared);
        expect(fork.active.policy.protectedSpans).toEqual([]);
        expect(fork.active.budget).toBe(undefined);
        await fork.prefill(prompt.slice(found.shared));
        expect(relative([...(await fork.logits()).at(-1)!], [...(await fresh(prompt))])).toBeLessThan(1e-4);
        fork.destroy();
      }
      sequence.destroy();
    };
    await fc.assert(fc.asyncProperty(drawn, run), { numRuns: 30 });
    for (const policy of ['knorm | topK', 'streaming', undefined]) expect(shares.get(policy)).toBeGreaterThan(0);
  }, 60_000);

  test('in a store under a policy that freezes rows', async () => {
    const store = createPrefixStore(embedded, { maxBytes: 1e9, policy: parsePolicy('etf') });
    await store.add(text);
    const prompt = [...text.slice(0, 60), 5, 6, 7],
      sequence = await store.sequence(prompt),
      own = new Sequence(embedded);
    await own.prefill(prompt, { policy: 'etf' });
    expect(store.counts.reused).toBe(0);
    expect([...(await sequence.logits())[0]]).toEqual([...(await own.logits())[0]]);
    for (const each of [sequence, own, store]) each.destroy();
  });

  test('a sequence whose slots were demoted says that it cannot be cut', async () => {
    const sequence = new Sequence(embedded);
    await sequence.prefill(text, { policy: 'knorm | topK | levels(q4=1)', budget: '100%' });
    expect(() => sequence.fork(40)).toThrow('expected a sequence that has evicted nothing, demoted nothing');
    sequence.fork().destroy();
    sequence.destroy();
  });
});
