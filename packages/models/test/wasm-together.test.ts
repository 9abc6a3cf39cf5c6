import { adaKV } from '@kv/allocators-ada-kv';
import { cadence, compose, type Policy } from '@kv/core';
import { levels } from '@kv/demotions-levels';
import { h2o, snapkv, streaming } from '@kv/scorers-attention';
import { topK } from '@kv/selectors-top-k';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { loadModel, Sequence, type HostModel } from '../src/index.ts';
import { stepTogether } from '@kv/engine';
import { wasmRuntime } from '@kv/engine-wasm';
import { modules } from './modules.ts';
import { fixture, hasExperts, leadingFamilies } from '@kv/model-testing/fixture';
import { inTurn } from '@kv/model-testing/in-turn';
import { overQuantised } from '@kv/engine-testing/quantised';
import { reference } from '@kv/model-testing/reference';

const newest = modules.at(-1)![1]; // form 0 is available wherever tests run

/**
 * Policies of the sequences: none, a window, running sums, heads of different lengths, slots at levels; all but the first
 * evict.
 */
const ways: readonly { readonly policy: Policy | undefined; readonly every?: number }[] = [
  { policy: undefined },
  { policy: compose(snapkv({ window: 4 }), topK()), every: 3 },
  { policy: compose(h2o(), topK(), cadence({ every: 2 })), every: 2 },
  { policy: compose(streaming({ sinks: 2 }), topK()) },
  { policy: compose(snapkv({ window: 8 }), adaKV(), topK()), every: 4 },
  { policy: compose(snapkv({ window: 4 }), topK(), levels({ f16: 0.5, q8: 0.5 })), every: 2 },
];
const members = (vocab: number, most: number) =>
  fc.record({
    prompt: fc.array(fc.nat(vocab - 1), { minLength: 1, maxLength: most }),
    way: fc.nat(ways.length - 1),
    tokens: fc.array(fc.nat(vocab - 1), { minLength: 1, maxLength: 5 }),
  });
type Member = { readonly prompt: readonly number[]; readonly way: number; readonly tokens: readonly number[] };

async function started(model: HostModel, { prompt, way }: Member): Promise<Sequence> {
  const sequence = new Sequence(model),
    { policy } = ways[way];
  await sequence.prefill([...prompt], policy && { policy, budget: 12 });
  return sequence;
}

/** Steps all of them together and separately: logits and slots are bit-identical, and no memory is left. */
async function compare(model: HostModel, all: readonly Member[]): Promise<void> {
  /** Layers that read the slots of others pass one sequence at a time. */
  const joins = model.config.mixers.every((mixer) => mixer.kind !== 'attention' || mixer.slotsOf === undefined),
    start = (): Promise<Sequence[]> => Promise.all(all.map((each) => started(model, each)));
  const [alone, together] = [await start(), await start()];
  for (let step = 0; step < 5; step++) {
    const going = all.flatMap(({ tokens, way }, n) =>
      step < tokens.length ? [{ n, token: tokens[step], every: ways[way].every }] : [],
    );
    const before = together.map(({ memory }) => memory.caches.context.counters.batchedPasses ?? 0);
    const failed = await stepTogether(going.map(({ n, ...rest }) => ({ sequence: together[n], ...rest })));
    expect(failed.filter((error) => error !== undefined)).toEqual([]);
    for (const { n, token, every } of going) {
      await alone[n].step(token, every);
      expect((await together[n].logits())[0], `member ${n}, step ${step}`).toEqual((await alone[n].logits())[0]);
      expect(together[n].kept()).toEqual(alone[n].kept());
      expect((together[n].memory.caches.context.counters.batchedPasses ?? 0) - before[n]).toBe(
        going.length > 1 && joins ? 1 : 0,
      );
    }
  }
  for (const sequence of [...alone, ...together]) {
    sequence.destroy();
    expect(sequence.memory.ledger.allocated).toBe(0);
  }
}

const paths = [
  ['llama', reference('data/goldens/llama')],
  ['qwen2', reference('data/goldens/qwen2')],
  ['qwen3', reference('data/goldens/qwen3')],
  // tokens are not batched where a router chooses experts
  ...inTurn(
    leadingFamilies.filter((name) => !hasExperts(name)),
    6,
  ).map((name) => [`the tiny ${name}`, fixture(name)] as const),
] as const;

test.each(paths)('%s: in a batch a sequence gives what it gives alone, to the bit', async (_, path) => {
  for (const exact of [false, true]) {
    // 8-bit weights where rows are whole blocks
    const model = await loadModel(path, { runtime: overQuantised(wasmRuntime(newest, { exact })) }),
      { vocab, maxPositions } = model.config;
    await fc.assert(
      fc.asyncProperty(
        fc.array(members(vocab, Math.min(60, maxPositions - 8)), { minLength: 1, maxLength: 10 }),
        (all) => compare(model, all),
      ),
      { numRuns: 4 },
    );
    model.destroy();
  }
});

test.each(modules)(
  '%s: batches of up to 34 of prompts that differ in length, through pieces of long attention',
  async (_, fast) => {
    const counts = fast === newest ? [1, 2, 5, 8, 34] : inTurn([8, 5, 34, 2], 4); // all modules batch in the same code
    for (const [threads, some] of [
      [2, counts.filter((count) => count <= 8)],
      [1, counts.filter((count) => count > 8)], // threads that wait for a core take long
    ] as const) {
      if (some.length === 0) continue;
      const model = await loadModel('embedded', { runtime: overQuantised(wasmRuntime(fast, { threads })) });
      const { vocab } = model.config;
      for (const count of some)
        await compare(
          model,
          Array.from({ length: count }, (_, n) => ({
            prompt: Array.from({ length: n === 1 ? 700 : 1 + ((n * 53) % 90) }, (_, i) => (i * 37 + n) % vocab),
            way: n % ways.length,
            tokens: Array.from({ length: 1 + ((n + 4) % 5) }, (_, i) => (n * 11 + i) % vocab),
          })),
        );
      model.destroy();
    }
  },
);

test('one that fails, and one that was aborted, do not hold the others up', async () => {
  const model = await loadModel('embedded', { runtime: wasmRuntime(newest, { threads: 2 }) }),
    start = (n: number): Promise<Sequence> => started(model, { prompt: [n, 9, n], way: 0, tokens: [] });
  const [a, broken, b, own] = await Promise.all([1, 2, 3, 3].map(start)),
    abort = new AbortController(),
    aborted = new Sequence(model, undefined, { start: { memory: model.memory({ signal: abort.signal }) } });
  await aborted.prefill([5, 6]);
  abort.abort(new Error('gone'));
  broken.destroy();
  const failed = await stepTogether([a, broken, aborted, b].map((sequence) => ({ sequence, token: 11 })));
  await own.step(11);
  expect(failed.map((error) => error?.message)).toEqual([
    undefined,
    'sequence: was destroyed: start a new one',
    'gone',
    undefined,
  ]);
  expect((await b.logits())[0]).toEqual((await own.logits())[0]);
  for (const sequence of [a, b, own, aborted]) sequence.destroy();
  model.destroy();
});
