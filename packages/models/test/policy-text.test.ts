import { compose } from '@kv/core';
import type { Policy } from '@kv/core';
import { compile } from '@kv/core/engine';
import { parsePolicy, policyNames } from '@kv/policies';
import { snapkv } from '@kv/scorers-attention';
import { caote } from '@kv/scorers-caote';
import { topK } from '@kv/selectors-top-k';
import fc from 'fast-check';
import { beforeAll, describe, expect, test } from 'vitest';
import { recorder, slotScores } from '@kv/engine';
import { createPrefixStore, generate, loadCache, loadModel, saveCache, Sequence } from '../src/index.ts';
import type { Model } from '../src/index.ts';
import { reference, referenceJson } from '@kv/model-testing/reference';

let model: Model, ids: number[];
const text = 'snapkv(window=8) | caote | topK',
  made = compose(snapkv({ window: 8 }), caote(), topK());
beforeAll(async () => {
  model = await loadModel(reference('data/goldens/llama'));
  ids = referenceJson<{ ids: number[] }>('data/goldens/llama/golden.json').ids.slice(0, 60);
});
/** Returns the result of `use` on a fresh sequence, which is destroyed afterwards. */
async function using<T>(use: (sequence: Sequence) => Promise<T>): Promise<T> {
  const sequence = new Sequence(model);
  try {
    return await use(sequence);
  } finally {
    sequence.destroy();
  }
}

/** Everything that takes a policy and may await the catalogue. */
const waiting: Readonly<Record<string, (policy: Policy | string) => Promise<unknown>>> = {
  generate: async (policy) => (await generate(model, { ids, policy, budget: 20, maxNewTokens: 4 })).report.kept,
  'generate, decodePolicy': async (decodePolicy) =>
    (await generate(model, { ids, decodePolicy, decodeBudget: 20, every: 2, maxNewTokens: 5 })).report.kept,
  prefill: (policy) =>
    using(async (sequence) => {
      await sequence.prefill(ids, { policy, budget: 20 });
      return sequence.kept();
    }),
  'prefill, policies, then evict': (policy) =>
    using(async (sequence) => {
      await sequence.prefill(ids, { policies: [policy] });
      await sequence.evict(policy, 20);
      return sequence.kept();
    }),
  scores: (policy) =>
    using(async (sequence) => {
      await sequence.prefill(ids, { policies: [policy] });
      return slotScores(sequence, policy, 0);
    }),
  loadCache: (policy) =>
    using(async (sequence) => {
      await sequence.prefill(ids, { policies: [made] });
      const again = await loadCache(model, await saveCache(sequence), { policy, budget: 20 });
      const { label } = again.active.policy;
      again.destroy();
      return label;
    }),
};
/** Everything that takes a policy synchronously. */
const immediate: Readonly<Record<string, (policy: Policy | string) => unknown>> = {
  decodeUnder: (policy) => new Sequence(model).decodeUnder(policy as Policy, 20),
  createPrefixStore: (policy) => createPrefixStore(model, { maxBytes: 1e6, policy: policy as Policy, budget: 20 }),
  recorder: (policy) => recorder(policy as Policy),
};

describe.each(Object.keys(waiting))('%s', (door) => {
  test('takes the text of a policy as it takes the policy', async () => {
    expect(await waiting[door](text)).toEqual(await waiting[door](made));
  });
  test('refuses a wrong text as parsePolicy does', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.constantFrom('snapvk | topK', 'snapkv | caote |', 'topK | snapkv', 'snapkv(windw=8)', ''),
        async (wrong) => {
          let sentence = '';
          try {
            parsePolicy(wrong);
          } catch (error) {
            sentence = (error as Error).message;
          }
          expect(sentence).not.toBe('');
          await expect(waiting[door](wrong)).rejects.toThrow(sentence);
        },
      ),
    );
  });
});
test.each(Object.keys(immediate))('%s says what makes a policy of a text', (door) => {
  fc.assert(
    fc.property(fc.constantFrom(...policyNames, text), (name) => {
      expect(() => immediate[door](name)).toThrow(
        /^policy: expected a piece .*, got the text '.*: policy\(".*"\) of @kv\/policies/,
      );
    }),
  );
  expect(() => immediate[door](made)).not.toThrow();
});
test('every name of the catalogue means the same as text and as a policy', () => {
  for (const name of policyNames) expect(compile(parsePolicy(name)).label).not.toBe('');
});
test('options that are no object', async () => {
  await expect(generate(model, 'text' as never)).rejects.toThrow(
    'generate: expected options as an object such as { prompt: … }, got ',
  );
});
