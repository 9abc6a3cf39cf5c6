import { linearBudgets } from '@kv/allocators-pyramidal';
import { cadence, compose, id, keys, queries, scorer } from '@kv/core';
import type { Policy } from '@kv/core';
import { h2o, meanAttention, snapkv, streaming } from '@kv/scorers-attention';
import { caote } from '@kv/scorers-caote';
import { knorm } from '@kv/scorers-knorm';
import { topK } from '@kv/selectors-top-k';
import fc from 'fast-check';
import { beforeAll, describe, expect, test } from 'vitest';
import { decode, generate, loadModel, Sequence } from '../src/index.ts';
import type { Model } from '../src/index.ts';
import { StopText, TokenText, slotScores } from '@kv/engine';
import { relative } from '@kv/engine-testing/run';
import { reference, referenceJson } from '@kv/model-testing/reference';

let model: Model, ids: number[], text: string;
const small = compose(snapkv({ window: 8 }), topK());
beforeAll(async () => {
  model = await loadModel(reference('data/goldens/llama'));
  ({ ids, text } = referenceJson<{ ids: number[]; text: string }>('data/goldens/llama/golden.json'));
});

describe('generate', () => {
  test('the README example', async () => {
    const policy = compose(snapkv({ window: 32 }), caote(), linearBudgets(), topK());
    const { text: answer, report } = await generate(model, { prompt: text, policy, budget: 128, maxNewTokens: 8 });
    expect(typeof answer).toBe('string');
    expect(report.policy).toBe('snapkv(window=32) ∘ caote ∘ linearBudgets ∘ topK');
    const sizes = report.kept.map((heads) => heads[0].length);
    expect(sizes.reduce((a, b) => a + b)).toBe(4 * 128);
    expect(sizes).toEqual([...sizes].sort((a, b) => b - a));
    expect(sizes[0]).toBeGreaterThan(sizes[3]);
  });
  test('refuses a budget that nothing keeps', async () => {
    await expect(generate(model, { ids, budget: 8 })).rejects.toThrow(
      "policy: expected the policy that keeps a budget of 8, such as 'outstandingSentences', got none",
    );
    for (const policy of [snapkv(), compose(snapkv(), caote())] as unknown[] as Policy[]) // types refuse them
      await expect(generate(model, { ids, policy, budget: '25%' })).rejects.toThrow(
        `policy: '${policy.label}' scores and chooses no slots, so a budget of 25% would drop nothing: compose it with a selector such as topK()`,
      );
    for (const policy of ['full', 'snapkv'])
      expect((await generate(model, { ids, policy, budget: 64, maxNewTokens: 1 })).tokens).toHaveLength(1);
  });
  test('streams what it returns', async () => {
    const run = generate(model, { ids, maxNewTokens: 12 });
    let streamed = '';
    for await (const { text: part } of run) streamed += part;
    expect(streamed).toBe((await run).text);
    expect((await run).tokens).toEqual((await generate(model, { ids, maxNewTokens: 12 })).tokens);
  });
  test('stops before a stop string, also one that spans tokens', async () => {
    const { text: all } = await generate(model, { ids, maxNewTokens: 16 });
    for (const at of [2, 5]) {
      const stop = all.slice(at, at + 4),
        run = await generate(model, { ids, maxNewTokens: 16, stop: [stop] });
      expect(run.text).toBe(all.slice(0, all.indexOf(stop)));
      expect(run.report.finish).toBe('stop');
    }
  });
  test('an abort gives what there is', async () => {
    const abort = new AbortController(),
      run = generate(model, { ids, maxNewTokens: 50, signal: abort.signal });
    let seen = 0;
    for await (const chunk of run) if (chunk.token !== undefined && ++seen === 3) abort.abort();
    expect((await run).report.finish).toBe('aborted');
    expect((await run).tokens).toHaveLength(3);
  });
  test('a seed repeats a sample, another one differs', async () => {
    const sample = async (seed: number): Promise<readonly number[]> =>
      (await generate(model, { ids, maxNewTokens: 12, temperature: 1, topP: 0.9, seed })).tokens;
    expect(await sample(1)).toEqual(await sample(1));
    expect(await sample(1)).not.toEqual(await sample(2));
  });
  test('the end token ends a text, and is an ordinary id among ids', async () => {
    const policy = compose(snapkv({ window: 16 }), topK()),
      options = { policy, budget: 60, maxNewTokens: 16 };
    expect((await generate(model, { ...options, prompt: text })).report.finish).toBe('eos');
    expect((await generate(model, { ...options, ids })).tokens).toHaveLength(16);
  });
});

describe('only what is read is computed', () => {
  test.each([
    ['full', id],
    ['streaming', compose(streaming(), topK())],
    ['knorm', compose(knorm(), topK())],
  ] as const)('%s: fused attention only', async (_, policy) => {
    const { report } = await generate(model, { ids, policy, budget: 64, maxNewTokens: 4 });
    expect(report.counts).toMatchObject({ statistics: 0, fused: 4 * 4 });
  });
  test('a window costs one pass over the last queries a layer; an accumulated sum one for every attention call', async () => {
    expect((await generate(model, { ids, policy: small, budget: 64, maxNewTokens: 4 })).report.counts.statistics).toBe(
      4,
    );
    expect(
      (await generate(model, { ids, policy: compose(meanAttention(), topK()), budget: 64, maxNewTokens: 4 })).report
        .counts.statistics,
    ).toBe(4);
  });
});

describe('memory', () => {
  test('evicting layer by layer, the peak is one whole layer above the budget; a block bounds every layer', async () => {
    const slot = 2 * 4 * (2 * 16 + 1);
    const { report } = await generate(model, {
      ids,
      policy: compose(streaming(), topK()),
      budget: 32,
      maxNewTokens: 1,
    });
    expect(report.bytes.peak).toBe(slot * (240 + 3 * 32));
    const blocks = await generate(model, {
      ids,
      policy: compose(streaming(), topK()),
      budget: 32,
      block: 16,
      maxNewTokens: 1,
    });
    expect(blocks.report.bytes.peak).toBeLessThanOrEqual(slot * 4 * (32 + 16));
    expect(blocks.report).toMatchObject({
      mostSlots: 48,
      bound: { slots: 48, because: 'blocks of 16 over a budget of 32' },
    });
  });
  test('a policy that wants the whole prompt evicts layer by layer where that comes in one block, and no layer keeps what its event read', async () => {
    const looked = scorer(
        'looked',
        { needsFullPrompt: true, needs: [queries(4096), keys] },
        ({ ops, at, queries: q, keys: k }) => {
          const [H = 1, w = 1, d = 1] = q.shape;
          return ops.groupRows('mean', ops.dot(ops.reshape(q, [H * w, d]), k), at.kvHeads);
        },
      ),
      policy = compose(looked(), topK()),
      slot = 2 * 4 * (2 * 16 + 1),
      ring = 240 * 4 * (4 * 16 + 1);
    const { report } = await generate(model, { ids, policy, budget: 32, maxNewTokens: 4 });
    expect(report.bytes.peak).toBe(slot * (240 + 3 * 32) + ring);
    const late = await generate(model, { ids, policy, budget: 32, maxNewTokens: 4, every: 2 });
    expect(late.report.bytes.peak).toBe(slot * (240 + 3 * 32) + 4 * ring);
    const sequence = new Sequence(model);
    await sequence.prefill(ids, { policies: [policy] });
    expect(sequence.memory.ledger.entry('rings').live).toBe(4 * ring);
    await sequence.evict(policy, 32);
    expect(report.kept).toEqual(sequence.kept());
    sequence.destroy();
    const blocks = await generate(model, { ids, policy, budget: 32, block: 100, maxNewTokens: 1 });
    expect(blocks.report.kept).toEqual(report.kept);
    expect(blocks.report.notes[0]).toContain('looks at the whole prompt');
  });
  test('nothing is left when a sequence ends, rings and statistics and states included', async () => {
    const sequence = new Sequence(model);
    await sequence.prefill(ids, { policies: [small, compose(h2o(), topK())] });
    expect(sequence.memory.ledger.entry('rings').live).toBe(4 * 8 * 4 * (4 * 16 + 1));
    const fork = sequence.fork();
    for (const each of [sequence, fork]) {
      each.destroy();
      expect([each.memory.ledger.live, each.memory.ledger.allocated]).toEqual([0, 0]);
    }
  });
  test('accumulated sums of a head add up to the number of queries so far', async () => {
    const sequence = new Sequence(model),
      policy = compose(h2o({ recent: 0 }), topK());
    await sequence.prefill(ids, { policies: [policy] });
    for (const row of await slotScores(sequence, policy, 2)) expect(row.reduce((a, b) => a + b)).toBeCloseTo(240, 3);
    sequence.destroy();
  });
  test('a policy without a scorer has no scores to ask for', async () => {
    const sequence = new Sequence(model);
    await sequence.prefill(ids);
    await expect(slotScores(sequence, id, 0)).rejects.toThrow(
      "scores: expected a policy that scores slots, got 'full', which has no scorer",
    );
    sequence.destroy();
  });
  test('no id follows a prompt whose logits were not asked for', async () => {
    const sequence = new Sequence(model);
    await sequence.prefill(ids, { rows: 0 });
    await expect(sequence.next()).rejects.toThrow('next: expected logits of the last token fed, got none: rows was 0');
    sequence.destroy();
  });
});

describe('sequences', () => {
  test('a fork that evicts says what a run of its own says, and leaves its source alone', async () => {
    const sequence = new Sequence(model),
      policies = [small, compose(h2o(), topK()), compose(snapkv({ window: 16 }), caote(), topK())];
    await sequence.prefill(ids, { policies });
    const before = sequence.kept();
    for (const policy of policies) {
      const fork = sequence.fork(),
        tokens: number[] = [];
      await fork.evict(policy, 48);
      for await (const { token } of decode(fork, { maxNewTokens: 10, stopAtEos: false }))
        if (token !== undefined) tokens.push(token);
      const own = await generate(model, { ids, policy, budget: 48, maxNewTokens: 10 });
      expect(tokens).toEqual(own.tokens);
      expect(fork.active.last?.kept.map((heads) => heads.map((slots) => [...slots]))).toEqual(own.report.kept);
      fork.destroy();
    }
    expect(sequence.kept()).toEqual(before);
    sequence.destroy();
  });
  test('two sequences in turn do what each does alone', async () => {
    const [a, b] = [new Sequence(model), new Sequence(model)],
      other = [...ids].reverse();
    await Promise.all([a.prefill(ids, { policy: small, budget: 32 }), b.prefill(other, { policy: small, budget: 32 })]);
    const turns: number[][] = [[], []];
    const runs = [decode(a, { maxNewTokens: 6, stopAtEos: false }), decode(b, { maxNewTokens: 6, stopAtEos: false })];
    for (let i = 0; i < 6; i++)
      for (const [j, run] of runs.entries()) {
        const { value } = await run.next();
        if (typeof value === 'object' && value.token !== undefined) turns[j].push(value.token);
      }
    for (const [j, prompt] of [ids, other].entries())
      expect(turns[j]).toEqual(
        (await generate(model, { ids: prompt, policy: small, budget: 32, maxNewTokens: 6 })).tokens,
      );
  });
  test.each([1, 7, 64])('blocks of %i change nothing where nothing is evicted', async (block) => {
    const run = (policy = compose(h2o(), topK()), b?: number) =>
      generate(model, { ids, policy, budget: 300, block: b, maxNewTokens: 3, logits: 3 });
    const [whole, blocks] = [await run(), await run(undefined, block)];
    expect(blocks.tokens).toEqual(whole.tokens);
    blocks.logits!.forEach((row, i) => expect(relative(row, whole.logits![i])).toBeLessThan(1e-5));
  });
  test('at its cadence the cache comes back to the budget, and the stated bound holds', async () => {
    const { report } = await generate(model, {
      ids,
      policy: compose(small, cadence({ block: 32, every: 5 })),
      budget: 40,
      maxNewTokens: 23,
    });
    expect(report.counts.events).toBe(7 + 4); // the first block of 32 fits the budget
    expect(report.mostSlots).toBeLessThanOrEqual(report.bound.slots);
    expect(
      report.kept.flat().every((slots) => slots.length === 40 && slots.every((p, i) => i === 0 || p > slots[i - 1])),
    ).toBe(true);
  });
});

describe('errors, before anything is evicted', () => {
  const bad = compose(
    scorer('nan', {}, ({ ops, at }) =>
      ops.from({ data: new Float32Array(at.slots).fill(Number.NaN), shape: [1, at.slots] }),
    )(),
    topK(),
  );
  test.each([
    [
      'forced slots above the budget',
      () => ({ policy: small, budget: 4 }),
      "budget: 4 slots are fewer than 'snapkv(window=8) ∘ topK' forces in every head: expected a budget of at least 8, as snapkv(window=8",
    ],
    [
      'a score that is not finite',
      () => ({ policy: bad, budget: 40 }),
      'nan, layer 0: scores must be finite, got NaN in row 0, slot 0',
    ],
    ['no budget', () => ({ policy: small }), "'snapkv(window=8) ∘ topK' evicts, so a budget is expected"],
    ['a share above 1', () => ({ policy: small, budget: '140%' as const }), "(B, KiB, MiB or GiB), got '140%'"],
    [
      'too long',
      () => ({ ids: new Array<number>(2049).fill(1) }),
      "must fit the model's context of 2048 tokens, got 2049",
    ],
    ['empty', () => ({ ids: [] }), 'must have at least one token, got none'],
    ['an id outside', () => ({ ids: [3, 512] }), 'must be whole numbers below 512, got 512'],
    [
      'both kinds of prompt',
      () => ({ prompt: 'x' }),
      'expected exactly one of prompt (text), messages (a conversation) and ids',
    ],
    ['a block of nothing', () => ({ block: 0 }), 'must be a positive whole number of tokens, got 0'],
  ])('%s', async (_, options, message) => {
    await expect(generate(model, { ids, ...options() })).rejects.toThrow(message);
  });
  test('the cache is as it was', async () => {
    const sequence = new Sequence(model);
    await sequence.prefill(ids, { policies: [small] });
    const before = sequence.kept();
    for (const [policy, budget] of [
      [small, 4],
      [bad, 40],
      [compose(meanAttention(), topK()), 40],
    ] as const)
      await expect(sequence.evict(policy, budget)).rejects.toThrow();
    expect(sequence.kept()).toEqual(before);
    sequence.destroy();
  });
});

test('stop strings: whatever the pieces, the text ends before the one that ends first', () => {
  fc.assert(
    fc.property(
      fc.array(fc.string({ unit: fc.constantFrom('a', 'b', '\n'), maxLength: 4 })),
      fc.array(fc.string({ unit: fc.constantFrom('a', 'b', '\n'), minLength: 1, maxLength: 4 }), { maxLength: 3 }),
      (parts, stops) => {
        const stopper = new StopText(stops),
          all = parts.join('');
        let out = '';
        for (const part of parts) {
          out += stopper.push(part);
          if (stopper.stopped) break;
        }
        if (!stopper.stopped) out += stopper.end('');
        const [first] = stops
          .map((stop) => ({ stop, at: all.indexOf(stop), end: all.indexOf(stop) + stop.length }))
          .filter(({ at }) => at >= 0)
          .sort((a, b) => a.end - b.end || a.at - b.at);
        expect(out).toBe(all.slice(0, first?.at));
        expect(stopper.found).toBe(first?.stop);
      },
    ),
  );
});

test('token text: offsets cover each token, multi-byte characters included', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'grapheme', maxLength: 40 }), (said) => {
      const { ids: tokens, offsets } = model.tokenizer.encode(said),
        own = new TokenText(model.tokenizer);
      for (const token of tokens) own.push(token);
      expect(own.text).toBe(said);
      expect(own.offsets).toEqual(offsets);
    }),
  );
});
