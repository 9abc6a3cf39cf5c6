import { compose, scorer } from '@kv/core';
import type { Policy, Signal } from '@kv/core';
import { streaming } from '@kv/scorers-attention';
import { topK } from '@kv/selectors-top-k';
import { beforeAll, expect, test } from 'vitest';
import { loadCache, loadModel, saveCache, Sequence } from '../src/index.ts';
import { Ledger, watchLayers, HiddenNumbers, freeObservations } from '@kv/engine';
import type { HostModel } from '../src/index.ts';
import { reference, referenceJson } from '@kv/model-testing/reference';

let model: HostModel, ids: number[], channel: number[];
beforeAll(async () => {
  model = await loadModel(reference('data/goldens/llama'));
  ids = referenceJson<{ ids: number[] }>('data/goldens/llama/golden.json').ids;
  channel = [];
  await watchLayers(model, ids, {
    hidden: (rows) => {
      for (let i = 3; i < rows.length; i += model.config.hidden) channel.push(rows[i]);
    },
  });
});
/**
 * Returns a policy that keeps the first slots and records channel 3 of every token's hidden state at each event, with
 * the rows as given.
 */
function probe(): { readonly policy: Policy; readonly asked: Float32Array[]; readonly rows: Float32Array[] } {
  const asked: Float32Array[] = [],
    given: Float32Array[] = [];
  const signal: Signal<'probe', Float32Array> = {
    id: 'probe',
    as: 'probe',
    cost: 'artifact',
    hidden: true,
    provide: (engine) =>
      engine.hiddenNumbers('probe', (rows, width) => {
        given.push(rows);
        return rows.filter((_, i) => i % width === 3);
      }),
  };
  const score = scorer('probe', { needs: [signal] }, ({ ops, at, probe: numbers }) => {
    if (at.layer === 0) asked.push(numbers);
    return ops.from({ data: Float32Array.from({ length: at.slots }, (_, i) => -i), shape: [1, at.slots] });
  })();
  return { policy: compose(score, topK()), asked, rows: given };
}
const near = (got: ArrayLike<number>, want: readonly number[]): void =>
  want.forEach((x, i) => expect(Math.abs(got[i] - x)).toBeLessThan(1e-4 * (1 + Math.abs(x))));

test.each([undefined, 1, 50, 64])(
  'in blocks of %s: one event after the prompt, with the numbers of one whole pass',
  async (block) => {
    const { policy, asked, rows } = probe(),
      sequence = new Sequence(model);
    await sequence.prefill(block === 1 ? ids.slice(0, 20) : ids, { policy, budget: 16, block });
    expect([asked.length, asked[0].length, sequence.stats.counts.events]).toEqual([1, block === 1 ? 20 : 240, 1]);
    near(asked[0], channel.slice(0, asked[0].length));
    // 4 layers asked, each row was passed once
    expect(rows).toHaveLength(block === undefined ? 1 : Math.ceil(asked[0].length / block));
    sequence.destroy();
  },
);

test('a generated token joins with the state that made its logits, and what is known is not asked for again', async () => {
  const own = await loadModel('embedded'),
    { policy, asked, rows } = probe(),
    sequence = new Sequence(own),
    prompt = own.tokenizer.encode('The Paris code is: 7KQ2. It was a fine day.').ids,
    D = own.config.hidden;
  expect(own.config.tied).toBe(true);
  await sequence.prefill(prompt, { policy, budget: 8 });
  for (const id of [40, 41, 42, 43]) await sequence.step(id, 2);
  expect(asked.map(({ length }) => length - prompt.length)).toEqual([0, 2, 4]);
  expect(asked[2].subarray(0, asked[1].length)).toEqual(asked[1]);
  expect(rows.map(({ length }) => length / D)).toEqual([prompt.length, 1, 1, 1, 1]);
  const [newest] = await sequence.logits(),
    last = rows.at(-1)!,
    table = own.decoder.embed(Array.from(newest, (_, id) => id)); // the head is the embedding
  for (const id of [0, 1, 40, 500, 1023])
    expect(Math.abs(newest[id] - last.reduce((sum, x, c) => sum + x * table[id * D + c], 0))).toBeLessThan(1e-3);
  sequence.destroy();
});

test('rows are dropped once they were seen, numbers go with forks, and all is given back', async () => {
  const { policy, asked } = probe(),
    sequence = new Sequence(model),
    D = model.config.hidden;
  await sequence.prefill(ids.slice(0, 100), { policies: [policy] });
  expect(sequence.memory.ledger.entry('hidden')).toMatchObject({ allocated: 400 * D, live: 400 * D });
  expect(sequence.memory.slots.cuttableFrom).toBe(Infinity);
  const early = sequence.fork();
  await sequence.evict(policy, 10);
  expect(sequence.memory.ledger.entry('hidden')).toMatchObject({ allocated: 400, live: 400 });
  const late = sequence.fork();
  await late.append(ids.slice(100, 110));
  await late.evict(policy, 10);
  await early.append(ids.slice(100, 120));
  await early.evict(policy, 10);
  expect(asked.map(({ length }) => length)).toEqual([100, 110, 120]);
  near(asked[2], channel.slice(0, 120)); // its cache was not cut
  expect(asked[1].subarray(0, 100)).toEqual(asked[0]);
  for (const one of [sequence, early, late]) {
    one.destroy();
    expect([one.memory.ledger.allocated, one.memory.ledger.live]).toEqual([0, 0]);
  }
});

test('what passed unseen is an error, not a guess', async () => {
  const { policy } = probe(),
    missing =
      "sequence: the signal probe was not remembered while the prompt passed: name the policy in prefill's `policies`",
    sequence = new Sequence(model);
  await sequence.prefill(ids.slice(0, 30), { policy: compose(streaming(), topK()), budget: 20 });
  await expect(sequence.evict(policy, 10)).rejects.toThrow(missing);
  await expect(sequence.prefill(ids.slice(30, 60), { policy, budget: 10 })).rejects.toThrow(missing);
  sequence.destroy();
  const settled = new Sequence(model);
  await settled.prefill(ids.slice(0, 30), { policy, budget: 20 });
  const saved = await saveCache(settled);
  freeObservations(settled);
  await settled.append(ids.slice(30, 40));
  expect(settled.memory.ledger.entry('hidden').allocated).toBe(0);
  await expect(settled.evict(policy, 10)).rejects.toThrow(missing);
  settled.destroy();
  await expect(loadCache(model, saved, { policy, budget: 20 })).rejects.toThrow(missing);
});
test('one number a row', () => {
  const numbers = new HiddenNumbers(0, 2, new Ledger());
  numbers.push(new Float32Array(6));
  expect(() => numbers.numbers('short', () => new Float32Array(2))).toThrow(
    'short: expected one number for each of 3 hidden states, got 2',
  );
  expect(numbers.numbers('other', (rows) => rows.subarray(0, 3))).toHaveLength(3);
  numbers.seen();
  expect(numbers.numbers('late', (rows) => rows)).toBeUndefined();
});
