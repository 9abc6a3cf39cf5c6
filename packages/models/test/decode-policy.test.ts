import { compose, cadence, rerotate, state, view, onStep } from '@kv/core';
import { h2o, snapkv, streaming } from '@kv/scorers-attention';
import { keydiff } from '@kv/scorers-keys';
import { newestQueryAttention } from '@kv/scorers-retrieval';
import { topK } from '@kv/selectors-top-k';
import { beforeAll, describe, expect, test } from 'vitest';
import { generate, loadModel, Sequence } from '../src/index.ts';
import type { GenerateOptions, Model } from '../src/index.ts';
import { reference, referenceJson } from '@kv/model-testing/reference';

let model: Model, ids: number[];
const window = compose(snapkv({ window: 8 }), topK()),
  keys = compose(keydiff(), topK()),
  sinks = compose(streaming({ sinks: 2 }), topK());
beforeAll(async () => {
  model = await loadModel(reference('data/goldens/llama'));
  ids = referenceJson<{ ids: number[] }>('data/goldens/llama/golden.json').ids.slice(0, 90);
});
const lengths = (kept: readonly (readonly (readonly number[])[])[]): readonly number[] => [
  ...new Set(kept.flat().map((set) => set.length)),
];

describe('decoding under another policy', () => {
  test('is what evictions between tokens by hand are', async () => {
    const { tokens, report } = await generate(model, {
      ids,
      policy: window,
      budget: 40,
      decodePolicy: keys,
      decodeBudget: 24,
      every: 5,
      maxNewTokens: 18,
    });
    const hand = new Sequence(model),
      said: number[] = [];
    await hand.prefill(ids, { policy: window, budget: 40, policies: [keys] });
    for (let made = 0; made < 18; made++) {
      said.push(await hand.next());
      if (made < 17) await hand.step(said.at(-1)!);
      if (made < 17 && (made + 1) % 5 === 0) await hand.evict(keys, 24);
    }
    expect(tokens).toEqual(said);
    expect(report.kept).toEqual(hand.active.last?.kept.map((heads) => heads.map((slots) => [...slots])));
    expect(report).toMatchObject({
      policy: 'snapkv(window=8) ∘ topK',
      decodePolicy: 'keydiff ∘ topK',
      budget: 24,
    });
    expect(report.mostSlots).toBeLessThanOrEqual(report.bound.slots);
    hand.destroy();
  });
  test('a share is of all tokens so far, and grows with them', async () => {
    const sequence = new Sequence(model),
      held: number[] = [];
    await sequence.prefill(ids, { policies: [sinks] });
    sequence.decodeUnder(sinks, '50%');
    for (let step = 1; step <= 12; step++) {
      await sequence.step(await sequence.next(), 4);
      held.push(...lengths(sequence.kept()));
    }
    expect(held).toEqual([91, 92, 93, 47, 48, 49, 50, 49, 50, 51, 52, 51]);
    const fork = sequence.fork();
    for (let step = 1; step <= 4; step++) await fork.step(await fork.next(), 4);
    expect([lengths(fork.kept()), fork.active.prompt?.policy.label]).toEqual([[53], '']);
    for (const each of [sequence, fork]) each.destroy();
  });
  test('the same policy may have another budget, and the cadence may be its own', async () => {
    const { report } = await generate(model, {
      ids,
      policy: compose(sinks, cadence({ every: 6 })),
      budget: '50%',
      decodeBudget: 20,
      maxNewTokens: 14,
    });
    expect([lengths(report.kept), report.counts['events'], report.policy === report.decodePolicy]).toEqual([
      [20],
      3,
      true,
    ]);
  });
  test('views and step hooks are those of the new one from its first token on', async () => {
    const counted = state('tokens', { kind: 'sequence', rows: 'model' }),
      seen: number[] = [];
    const counting = onStep('counting', { needs: [counted], reach: 'model' }, ({ ops, at, tokens }) => {
      seen.push(at.step);
      return { tokens: ops.add(tokens, 1) };
    })();
    const { report, tokens } = await generate(model, {
      ids,
      policy: window,
      budget: 40,
      decodePolicy: compose(view(compose(newestQueryAttention(), topK()), { budget: 2 }), counting),
      maxNewTokens: 5,
    });
    expect(seen).toEqual([1, 2, 3, 4]);
    expect([report.counts['events'], lengths(report.kept)]).toEqual([1, [40]]);
    expect(tokens).not.toEqual((await generate(model, { ids, policy: window, budget: 40, maxNewTokens: 5 })).tokens);
    expect(report.mostSlots).toBeLessThanOrEqual(report.bound.slots);
  });
  test('what it reads of the prompt is remembered', async () => {
    const { report } = await generate(model, {
      ids,
      decodePolicy: compose(h2o({ recent: 4 }), topK()),
      decodeBudget: 30,
      every: 3,
      maxNewTokens: 5,
    });
    expect([lengths(report.kept), report.policy]).toEqual([[30], 'full']);
    expect(report.bound).toEqual({ slots: 93, because: 'an event every 3 tokens over a prompt or a budget of 90' });
  });
  const evicting: GenerateOptions = { decodePolicy: keys, decodeBudget: 24, every: 5 };
  test.each([
    [
      'no cadence',
      { ...evicting, every: undefined },
      "every: 'keydiff ∘ topK' evicts while tokens are generated, so a number of tokens between two events is expected",
    ],
    [
      'no budget',
      { ...evicting, decodeBudget: undefined },
      "decodeBudget: 'keydiff ∘ topK' evicts, so a budget is expected: a number of slots, a share such as '25%', or bytes such as '64MiB'",
    ],
    ['a budget alone', { decodeBudget: 24, every: 5 }, 'decodeBudget: expected a policy that evicts, got none'],
    [
      'no share',
      { ...evicting, decodeBudget: '200%' as const },
      "decodeBudget: must be a whole number of slots of at least 1, a share above 0% and up to 100% such as '25%'",
    ],
    [
      'slots left where they were moved to',
      { ...evicting, policy: compose(sinks, rerotate()), budget: 30 },
      "decodePolicy: 'streaming(sinks=2) ∘ topK ∘ rerotate' moves kept slots together, expected a policy that goes on doing so, got 'keydiff ∘ topK'",
    ],
  ])('%s is an error', async (_, options, sentence) => {
    await expect(generate(model, { ids, maxNewTokens: 3, ...options })).rejects.toThrow(sentence);
  });
});
