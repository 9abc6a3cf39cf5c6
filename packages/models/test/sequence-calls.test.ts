import { KvError } from '@kv/core';
import { createPrefixStore, decodeTogether, loadCache, loadModel, saveCache, Sequence } from '@kv/models';
import { policy as policyOf } from '@kv/policies';
import { afterAll, beforeAll, expect, it } from 'vitest';
import type { Model } from '@kv/models';

let model: Model, ids: readonly number[];
beforeAll(async () => {
  model = await loadModel('embedded');
  ({ ids } = model.tokenizer.encode(
    'All of the clocks in April were striking thirteen, and few heard them. '.repeat(4),
  ));
});
afterAll(() => model.destroy());

const calls: Readonly<Record<string, (sequence: Sequence) => unknown>> = {
  prefill: (sequence) => sequence.prefill(ids.slice(0, 40)),
  prefillParts: (sequence) => sequence.prefillParts(ids.slice(0, 40), { part: 8 }).next(),
  append: (sequence) => sequence.append(ids.slice(0, 20)),
  step: (sequence) => sequence.step(ids[0]!),
  evict: (sequence) => sequence.evict('knorm', 30),
};
const atOnce: Readonly<Record<string, (sequence: Sequence) => unknown>> = {
  ...calls,
  protect: (sequence) => sequence.protect([[0, 4]]),
  decodeUnder: (sequence) => sequence.decodeUnder(policyOf('psaw')),
  fork: (sequence) => sequence.fork(),
  saveCache: (sequence) => saveCache(sequence),
};

it.each(Object.keys(calls).flatMap((first) => Object.keys(atOnce).map((second) => [first, second] as const)))(
  'a call of %s that is not awaited is finished, and that of %s refused with nothing changed',
  async (first, second) => {
    const [twice, once] = [new Sequence(model), new Sequence(model)];
    for (const each of [twice, once]) await each.prefill(ids);
    const running = calls[first]!(twice);
    await expect((async () => atOnce[second]!(twice))()).rejects.toThrow(
      `${second}: expected the call of '${first}' before to have ended, got another while it runs: await it`,
    );
    await running;
    await calls[first]!(once);
    expect(twice.progress.length).toBe(once.progress.length);
    expect(twice.active.policy.label).toBe(once.active.policy.label);
    expect(await twice.logits()).toEqual(await once.logits());
    expect(twice.kept()).toEqual(once.kept());
    for (const each of [twice, once]) each.destroy();
  },
);

it('between two parts of a prompt it is copied and saved, and both go on as it does', async () => {
  const sequence = new Sequence(model);
  let copy: Sequence | undefined, bytes: Uint8Array | undefined;
  for await (const fed of sequence.prefillParts(ids.slice(0, 40), { part: 16 }))
    if (fed === 16) [copy, bytes] = [sequence.fork(), await saveCache(sequence)];
  const loaded = await loadCache(model, bytes!);
  for (const each of [copy!, loaded]) {
    expect(each.progress.promptLength).toBe(16);
    await each.append(ids.slice(16, 40));
    expect(await each.logits()).toEqual((await sequence.logits()).slice(-1));
    each.destroy();
  }
  sequence.destroy();
});

it('one sequence twice in a batch is one sentence', async () => {
  const sequence = new Sequence(model);
  await sequence.prefill(ids);
  const [, second] = await decodeTogether([sequence, sequence], { maxNewTokens: 2 });
  expect(second).toMatchObject({ status: 'rejected' });
  expect(KvError.is((second as PromiseRejectedResult).reason)).toBe(true);
  sequence.destroy();
});

it('a refused event leaves the policy that was active', async () => {
  const sequence = new Sequence(model);
  await sequence.prefill(ids, { policy: policyOf('streaming'), budget: 100 });
  await expect(sequence.evict('h2o', 50)).rejects.toThrow('not remembered');
  expect(sequence.active.policy.label).toBe('streaming ∘ topK');
  for (let i = 0; i < 4; i++) await sequence.step(ids[i]!, 2);
  sequence.destroy();
});

it('sums of attention that begin within a text are told', async () => {
  const [late, whole] = [new Sequence(model), new Sequence(model)],
    options = { policy: policyOf('h2o'), budget: 60 };
  await late.prefill(ids.slice(0, 80));
  await late.prefill(ids.slice(80), options);
  await late.prefill(ids.slice(0, 20), options);
  await whole.prefill(ids, options);
  expect(late.stats.notes.filter((note) => note.includes("'h2o ∘ topK' sums attention from token 80 on"))).toHaveLength(
    1,
  );
  expect(whole.stats.notes).toEqual([]);
  for (const each of [late, whole]) each.destroy();
});

it('no more tokens leave what was read, and its logits', async () => {
  const sequence = new Sequence(model);
  await sequence.prefill(ids);
  const next = await sequence.next();
  await sequence.append([]);
  expect([sequence.progress.length, await sequence.next()]).toEqual([ids.length, next]);
  sequence.destroy();
});

it('a copy of a part counts what it holds', async () => {
  const sequence = new Sequence(model);
  await sequence.prefill(ids.slice(0, 50));
  for (const id of ids.slice(50, 56)) await sequence.step(id);
  const counts = ({ progress: { decoded, mostSlots, promptLength } }: Sequence): readonly number[] => [
    decoded,
    mostSlots,
    promptLength,
  ];
  const [part, more] = [sequence.fork(20), sequence.fork(53)];
  expect([counts(part), counts(more)]).toEqual([
    [0, 20, 20],
    [3, 53, 50],
  ]);
  for (const each of [part, more, sequence]) each.destroy();
});

it('a store of prefixes goes on under a policy that hides slots, and is done once it is destroyed', async () => {
  const store = createPrefixStore(model, { maxBytes: 1e9, policy: policyOf('psaw') });
  await expect(store.add([])).rejects.toThrow('prefix store: expected at least one id, got none');
  await store.add(ids.slice(0, 60));
  for (const asked of [ids.slice(0, 80), ids.slice(0, 60), [...ids.slice(0, 30), 7, 8], ids.slice(40)]) {
    const sequence = await store.sequence(asked);
    expect(sequence.active.policy.label).toBe(policyOf('psaw').label);
    sequence.destroy();
  }
  store.destroy();
  await expect(store.add(ids)).rejects.toThrow('prefix store: was destroyed');
  await expect(store.sequence(ids)).rejects.toThrow('prefix store: was destroyed');
  expect(store.bytes).toBe(0);
});
