import { attentionAccumulated, attentionAccumulatedKv, compose, weightScorer } from '@kv/core';
import { snapkv } from '@kv/scorers-attention';
import { topK } from '@kv/selectors-top-k';
import { moments } from '@kv/transforms-moments';
import { policy as policyOf } from '@kv/policies';
import type { HostCaches } from '@kv/engine';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { Chat, createPrefixStore, decode, loadCache, loadModel, saveCache, Sequence } from '../src/index.ts';
import type { Model } from '../src/index.ts';

let model: Model, ids: readonly number[];
beforeAll(async () => {
  model = await loadModel('embedded');
  ({ ids } = model.tokenizer.encode(
    'All of the clocks in April were striking thirteen, and few heard them. '.repeat(6),
  ));
});
afterAll(() => model.destroy());

const folding = compose(snapkv({ window: 6 }), topK(), moments());
const state = async (sequence: Sequence): Promise<unknown> => ({
  logits: await sequence.logits(),
  policy: sequence.active.policy.label,
  promptLength: sequence.progress.promptLength,
  length: sequence.progress.length,
  kept: sequence.kept(),
});

describe('a prompt after another one', () => {
  it('is evicted under a wider window as if it had been named before, also past the context', () =>
    fc.assert(
      fc.asyncProperty(
        fc.integer({ min: 1, max: 12 }),
        fc.integer({ min: 8, max: 40 }),
        fc.integer({ min: 13, max: 24 }),
        fc.constantFrom(undefined, 48),
        async (small, first, wide, window) => {
          const narrow = `snapkv(window=${small},kernel=3) | topK`,
            wider = `snapkv(window=${wide},kernel=3) | topK`,
            [told, late] = [new Sequence(model, undefined, { window }), new Sequence(model, undefined, { window })];
          for (const [sequence, policies] of [
            [told, [wider]],
            [late, []],
          ] as const) {
            await sequence.prefill(ids.slice(0, first), { policy: narrow, budget: 26, policies });
            await sequence.prefill(ids.slice(first, 90), { policy: wider, budget: 28, block: 8 });
          }
          // queries that had left the smaller ring are looked at by the first events alone
          if (first <= small) expect(await state(late)).toEqual(await state(told));
          expect(
            late
              .kept()
              .flat()
              .every(({ length }) => length === 28),
          ).toBe(true);
          const fork = late.fork();
          for (const sequence of [late, fork]) await sequence.evict(wider, 25);
          expect(late.kept()).toEqual(fork.kept());
          for (const sequence of [told, late, fork]) {
            sequence.destroy();
            expect(sequence.memory.ledger.live).toBe(0);
          }
        },
      ),
      { numRuns: 6 },
    ));
  it('begins sums of query heads again where those of KV heads were kept, and says so', async () => {
    const sequence = new Sequence(model),
      by = (signal: typeof attentionAccumulated) =>
        compose(
          weightScorer('summed', { needs: [signal] }, ({ ops, attention }) => ops.groupRows('sum', attention, 1))(),
          topK(),
        );
    await sequence.prefill(ids.slice(0, 40), { policy: by(attentionAccumulatedKv), budget: 30 });
    await sequence.prefill(ids.slice(40, 60), { policy: by(attentionAccumulated), budget: 30 });
    expect(sequence.kept()[0]![0]).toHaveLength(30);
    expect(sequence.stats.notes).toContainEqual(expect.stringContaining('sums attention from token 40 on'));
    sequence.destroy();
  });
});

describe('a budget that a policy cannot keep is told', () => {
  it('by a prompt, an event, a chat and a loaded sequence', async () => {
    const policy = 'quest',
      told = expect.stringMatching(/^'.*' evicts nothing: its budget of 30 has no effect$/),
      sequence = new Sequence(model);
    await sequence.prefill(ids.slice(0, 40), { policy, budget: 30 });
    expect(sequence.stats.notes).toEqual([told]);
    const bytes = await saveCache(sequence),
      loaded = await loadCache(model, bytes, { policy, budget: 30 });
    expect(loaded.stats.notes).toEqual([told]);
    await expect(loadCache(model, bytes, { budget: 30 })).rejects.toThrow(
      "policy: expected the policy that keeps a budget of 30, such as 'outstandingSentences', got none",
    );
    await loaded.evict(policy, 29);
    expect(loaded.stats.notes).toEqual([told, expect.stringContaining('its budget of 29 has no effect')]);
    const chat = new Chat(model, { policy, budget: 30, maxNewTokens: 1 });
    expect((await chat.send('Hi')).report.notes).toEqual([told]);
    for (const each of [sequence, loaded, chat]) each.destroy();
  });
});

describe('a call that is refused changes nothing', () => {
  it('an aborted prompt, in parts or whole', async () => {
    const sequence = new Sequence(model),
      signal = AbortSignal.abort(new Error('no more'));
    await sequence.prefill(ids.slice(0, 40));
    const before = await state(sequence);
    await expect(sequence.prefill(ids.slice(40), { policy: 'knorm', budget: 20, signal })).rejects.toThrow('no more');
    await expect(sequence.prefillParts(ids.slice(40), { part: 8, signal }).next()).rejects.toThrow('no more');
    expect(await state(sequence)).toEqual(before);
    sequence.destroy();
  });
  it('what folded slots leave no room for, in a prompt of blocks and appended', async () => {
    const sequence = new Sequence(model, undefined, { window: 80 }),
      sentence = /must fit the model's context of 80 tokens, evicted ones included/;
    await expect(sequence.prefill(ids.slice(0, 120), { policy: folding, budget: 20, block: 16 })).rejects.toThrow(
      sentence,
    );
    expect(sequence.progress.length).toBe(0);
    await sequence.prefill(ids.slice(0, 60), { policy: folding, budget: 20 });
    const before = await state(sequence);
    await expect(sequence.append(ids.slice(60, 100))).rejects.toThrow(sentence);
    expect(await state(sequence)).toEqual(before);
    const loaded = await loadCache(model, await saveCache(sequence), { policy: folding });
    expect(await state(loaded)).toEqual(before);
    for (const each of [sequence, loaded]) each.destroy();
  });
  it('a policy of generation that reads what was not recorded', async () => {
    const sequence = new Sequence(model);
    await sequence.prefill(ids.slice(0, 40));
    const before = await state(sequence);
    expect(() => sequence.decodeUnder(compose(snapkv({ window: 8 }), topK()), 20)).toThrow(
      'the signal attention.window(w=8) was not remembered while the prompt passed',
    );
    expect(await state(sequence)).toEqual(before);
    sequence.destroy();
  });
});

it('a sequence without logits says that it has none, not that it is empty', async () => {
  const sequence = new Sequence(model);
  await expect(sequence.next()).rejects.toThrow('next: has no tokens yet: call prefill first');
  await sequence.prefill(ids.slice(0, 8));
  sequence.forgetLogits();
  await expect(sequence.next()).rejects.toThrow(
    'next: expected logits of the last token fed, got none: feed a token first',
  );
  sequence.destroy();
});

it('a cadence of steps is a whole number of at least 1', async () => {
  const sequence = new Sequence(model);
  await sequence.prefill(ids.slice(0, 20), { policy: 'knorm', budget: 10 });
  for (const every of [0, NaN, -1, 1.5]) await expect(sequence.step(ids[0]!, every)).rejects.toThrow(/^every: /);
  expect(sequence.progress.length).toBe(20);
  sequence.destroy();
});

it('a prefix is stored once, and what is none is refused', async () => {
  for (const keeps of [{}, { policy: policyOf('knorm'), budget: 20 }]) {
    const store = createPrefixStore(model, { maxBytes: 1e9, ...keeps });
    await store.add(ids.slice(0, 60));
    const { bytes } = store;
    await store.add(ids.slice(0, 60));
    expect([store.bytes, store.counts.fed, store.counts.reused]).toEqual([bytes, 60, 60]);
    await expect(store.add(undefined as unknown as number[])).rejects.toThrow('expected a list of token ids');
    await store.add(ids.slice(0, 50));
    expect(store.bytes).toBeGreaterThan(bytes);
    store.destroy();
  }
});

it('a function that finds a policy is not called for a cache that had none', async () => {
  const sequence = new Sequence(model);
  await sequence.prefill(ids.slice(0, 20));
  const loaded = await loadCache(model, await saveCache(sequence), {
    policy: (label) => {
      throw new Error(`asked for '${label}'`);
    },
  });
  expect(loaded.stats.notes).toEqual([]);
  for (const each of [sequence, loaded]) each.destroy();
});

describe('a chat', () => {
  it('drops a message of which nothing could be read, and takes the next one', async () => {
    const said = 'All of the clocks in April were striking thirteen. ',
      keeps = { policy: policyOf('snapkv', { window: 4 }), budget: 20, maxNewTokens: 4 },
      [chat, calm] = [new Chat(model, keeps), new Chat(model, keeps)];
    for (const each of [chat, calm]) await each.send(said);
    const before = [[...chat.messages], chat.unread, chat.sequence.progress.length];
    const prefill = vi.spyOn(chat.sequence, 'prefillParts').mockImplementationOnce(() => {
      throw new Error('refused');
    });
    await expect(chat.send('lost')).rejects.toThrow('refused');
    expect([chat.messages, chat.unread, chat.sequence.progress.length]).toEqual(before);
    prefill.mockRestore();
    expect((await chat.send('And now?')).text).toBe((await calm.send('And now?')).text);
    for (const each of [chat, calm]) each.destroy();
  });
  it('keeps the window of the sequence that it is given', async () => {
    const chat = new Chat(model, {
      sequence: new Sequence(model, undefined, { window: 64 }),
      policy: 'streaming',
      budget: '50%',
      maxNewTokens: 4,
    });
    expect((await chat.retention()).slots).toBe(32);
    await chat.send('All of the clocks in April were striking thirteen. '.repeat(6));
    chat.clear();
    expect(chat.sequence.memory.caches.context.window).toBe(64);
    await expect(chat.retain('streaming', 64)).rejects.toThrow(
      /^budget: expected fewer slots than the context of .*, 64, got 64$/,
    );
    chat.destroy();
  });
});

it('protects any number of ranges, at once and call by call', async () => {
  const long = Array.from({ length: 700 }, (_, i) => ids[i % ids.length]!),
    [once, often] = [new Sequence(model, undefined, { window: 800 }), new Sequence(model, undefined, { window: 800 })],
    spans = Array.from({ length: 300 }, (_, i) => [2 * i, 2 * i + 1] as const);
  for (const each of [once, often]) await each.prefill(long);
  once.protect(spans);
  for (const span of spans.slice(0, 70)) often.protect([span]);
  for (const each of [once, often]) await each.evict('knorm', 320);
  expect(once.kept()[3]![1]).toEqual(expect.arrayContaining(spans.map(([from]) => from)));
  expect(often.kept()[3]![1]).toEqual(expect.arrayContaining(spans.slice(0, 70).map(([from]) => from)));
  expect(often.active.policy.protectedSpans).toHaveLength(70);
  for (const each of [once, often]) each.destroy();
});

it('what decoding freed is told apart from what was never recorded', async () => {
  const sequence = new Sequence(model);
  await sequence.prefill(ids.slice(0, 40), { policies: ['snapkv(window=4,kernel=3)'] });
  for await (const _ of decode(sequence, { maxNewTokens: 2 }));
  const sentence =
    'sequence: the signal attention.window(w=4) was freed, since no event was to follow: give `decode` `remember` or `every`, and `prefill` no `forget`';
  for (const each of [sequence, sequence.fork()])
    await expect(each.evict('snapkv(window=4,kernel=3)', 20)).rejects.toThrow(sentence);
  sequence.destroy();
});

it('prompts share what they begin with where layers carry states, without `block`', async () => {
  const hybrid = await loadModel('packages/model-hybrid'),
    store = createPrefixStore(hybrid, { maxBytes: 1e9 }),
    prompt = Array.from({ length: 160 }, (_, i) => 3 + ((7 * i) % 58));
  await store.add(prompt);
  const sequence = await store.sequence([...prompt.slice(0, 100), 5, 6]),
    alone = new Sequence(hybrid);
  expect(store.counts.reused).toBe(100);
  await alone.prefill([...prompt.slice(0, 100), 5, 6]);
  expect(await sequence.next()).toBe(await alone.next());
  for (const each of [sequence, alone, store, hybrid]) each.destroy();
});

it('keys of more slots than a call takes arguments are moved together', async () => {
  const count = 140_000,
    sequence = new Sequence(model),
    { caches } = sequence.memory,
    { cache } = (caches as HostCaches).layers[0]!,
    { headDim: d, heads } = cache;
  cache.append(
    new Float32Array(heads * count * d),
    new Float32Array(heads * count * d),
    Uint32Array.from({ length: count }, (_, i) => 2 * i),
  );
  caches.move(count);
  expect([cache.rotations![0], cache.rotations![count - 1]]).toEqual([0, count - 1]);
  sequence.destroy();
});
