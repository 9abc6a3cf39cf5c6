import { attentionAccumulated, attentionAccumulatedKv, compose, weightScorer } from '@kv/core';
import { snapkv } from '@kv/scorers-attention';
import { topK } from '@kv/selectors-top-k';
import { moments } from '@kv/transforms-moments';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { loadCache, loadModel, saveCache, Sequence } from '../src/index.ts';
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
  it('begins sums of query heads anew where those of KV heads were kept, and says so', async () => {
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
