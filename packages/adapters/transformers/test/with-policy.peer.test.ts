import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { compose, mandatory, rerotate, scorer } from '@kv/core';
import type { Policy } from '@kv/core';
import { DynamicCache, Tensor, TextGenerationPipeline, TextStreamer } from '@huggingface/transformers';
import { generate, loadModel, type HostModel } from '@kv/models';
import { inTurn } from '@kv/model-testing/in-turn';
import { policy, policyNames } from '@kv/policies';
import { topK } from '@kv/selectors-top-k';
import { beforeAll, describe, expect, test, vi } from 'vitest';
import { withPolicy, type WithPolicyOptions } from '../src/index.ts';
import { exported, type Exported } from './exported.ts';
import { generated, idsOf, TEXT, type Prompted } from './generated.ts';

let ours: HostModel, plain: Exported, mask: Exported;
beforeAll(async () => {
  ours = await loadModel('embedded');
  plain = await exported();
  mask = await exported({ positions: 'mask' });
});

const inputsOf = ({ tokenizer }: Exported, text = TEXT): Prompted => tokenizer(text) as Prompted;
const SETTINGS = { budget: 40, block: 24, every: 4 };

/** Policies of 64 forced slots, with a window that fits the budget. */
const small: Readonly<Record<string, Policy>> = {
  snapkv: policy('snapkv', { window: 8 }),
  snapkvCaote: policy('snapkvCaote', { window: 8 }),
  snapkvFastCaote: policy('snapkvFastCaote', { window: 8 }),
  chunkkv: policy('chunkkv', { window: 8 }),
};

/** The same, with kept keys moved together at every event. */
const turning = (under: Policy): Policy => compose(under, rerotate() as never) as unknown as Policy;

/** Returns what both engines write and keep, and the number of slots in which they differ. */
async function compared(
  { model, tokenizer, folder }: Exported,
  under: Policy,
  reference: Policy,
  settings: Omit<WithPolicyOptions, 'policy'> = SETTINGS,
): Promise<{
  readonly tokens: number[];
  readonly want: readonly number[];
  readonly differing: number;
  readonly kept: number;
}> {
  const kept = await withPolicy(model, { ...settings, policy: under, tokenizer, source: folder }),
    { budget, block, every } = settings,
    tokens = await generated(kept, inputsOf({ model, tokenizer, folder }), { max_new_tokens: 10 }),
    { tokens: want, report } = await generate(ours, {
      prompt: TEXT,
      policy: reference,
      budget,
      block,
      ...(every !== undefined && { every }),
      maxNewTokens: 10,
    }),
    stats = kept.stats();
  expect(stats.events).toBe(report.counts.events);
  expect(stats.kept.map((heads) => heads.map((row) => row.length))).toEqual(
    report.kept.map((heads) => heads.map((row) => row.length)),
  );
  const sets = stats.kept.flat().map((row) => new Set(row));
  return {
    tokens,
    want,
    differing: report.kept.flat().reduce((n, row, i) => n + row.filter((p) => !sets[i].has(p)).length, 0),
    kept: report.kept.flat(2).length,
  };
}

/** Policies that this engine takes, by name. */
const taken: [string, Policy][] = [];
for (const name of policyNames) taken.push([name, small[name] ?? policy(name)]);

describe('the same kept sets and tokens as @kv/models', () => {
  /** Policies that are taken, of which a third runs, by turns. */
  const ran: string[] = [],
    compares = new Set(inTurn(taken, 3).map(([name]) => name));
  test.each(taken)('%s', async (name, under) => {
    const { model, tokenizer, folder } = plain;
    const refusal = await withPolicy(model, { policy: under, tokenizer, source: folder, budget: 40 }).then(
      () => undefined,
      (error: Error) => error.message,
    );
    if (refusal !== undefined) {
      expect(refusal).toMatch(/^(?:withPolicy: '|budget: 40 slots are fewer than)/);
      return;
    }
    if (!compares.has(name)) {
      ran.push(under.label);
      return;
    }
    const forced = await withPolicy(model, { policy: under, tokenizer, source: folder, ...SETTINGS });
    try {
      await generated(forced, inputsOf(plain), { max_new_tokens: 1 });
    } catch (error) {
      expect(String(error)).toContain('slots are forced, but the budget is 40');
      return;
    }
    const { tokens, want, differing, kept } = await compared(plain, under, under);
    expect(tokens).toEqual(want);
    // Two engines add in another order: of slots with the same score up to rounding they may keep different ones.
    expect(differing / kept).toBeLessThan(0.01);
    ran.push(under.label);
  });
  test('these are the policies of keys, values, positions, tokens and queries', () => {
    expect(ran.length).toBeGreaterThan(30);
    for (const name of [
      'protectedPartition',
      'snapkv(window=8)',
      'tova',
      'streaming',
      'knorm',
      'keydiff',
      'sponsorship',
      'rarity',
      'caote',
    ])
      expect(ran.join('\n')).toContain(name);
  });

  test.each(['streaming', 'knorm', 'tova', 'snapkv', 'lagkv', 'pension', 'sponsorship', 'rkv', 'attendedSentences'])(
    '%s where the mask counts positions, as with keys that move together',
    async (name) => {
      const under = small[name] ?? policy(name),
        { tokens, want, differing, kept } = await compared(mask, under, turning(under));
      expect(tokens).toEqual(want);
      expect(differing / kept).toBeLessThan(0.01);
    },
  );

  test.each([
    ['attention as products', { attention: 'plain' }],
    ['attention as products, positions from the mask', { attention: 'plain', positions: 'mask' }],
    ['weights in files next to the graph', { inlineBytes: 1000 }],
  ] as const)('%s', async (_, options) => {
    const model = await exported(options);
    for (const name of ['snapkv', 'tovaCaote', 'knorm']) {
      const under = small[name] ?? policy(name),
        moved = 'positions' in options ? turning(under) : under,
        { tokens, want, differing, kept } = await compared(model, under, moved);
      expect(tokens).toEqual(want);
      expect(differing / kept).toBeLessThan(0.01);
    }
  });

  test('a whole prompt, a share of it, and no event after it', async () => {
    for (const settings of [{ budget: '25%' }, { budget: 30, every: 1 }, { budget: 1000, every: 2 }] as const) {
      const { tokens, want, differing } = await compared(plain, policy('tova'), policy('tova'), settings);
      expect([tokens, differing]).toEqual([want, 0]);
    }
  });
});

describe('what uses a model goes on using it', () => {
  test('pipelines and streamers, and the model itself stays as it was', async () => {
    const { model, tokenizer } = plain,
      before = await generated(model, inputsOf(plain), { max_new_tokens: 8 }),
      kept = await withPolicy(model, { policy: policy('streaming'), budget: 30 }),
      heard: string[] = [],
      streamer = new TextStreamer(tokenizer, { skip_prompt: true, callback_function: (text) => heard.push(text) }),
      alone = await generated(kept, inputsOf(plain), { max_new_tokens: 8 }),
      pipe = new TextGenerationPipeline({ task: 'text-generation', model: kept, tokenizer } as never),
      [{ generated_text: text }] = (await pipe(TEXT, {
        max_new_tokens: 8,
        do_sample: false,
        return_full_text: false,
        add_special_tokens: true,
        streamer,
      } as never)) as unknown as [{ generated_text: string }];
    expect(text).toBe(tokenizer.decode(alone, { skip_special_tokens: true }));
    expect(heard.join('')).toBe(text);
    expect(kept.stats().slots).toBe(30 + 7);
    expect(await generated(model, inputsOf(plain), { max_new_tokens: 8 })).toEqual(before);
    expect(kept).toBeInstanceOf(model.constructor);
  });

  test('a model whose policy has a session of its own may be disposed of', async () => {
    const made = await exported(),
      options = { ...SETTINGS, policy: policy('snapkv', { window: 8 }), source: made.folder },
      kept = await withPolicy(made.model, options),
      tokens = await generated(kept, inputsOf(made), { max_new_tokens: 6 });
    await made.model.dispose();
    expect(await generated(kept, inputsOf(made), { max_new_tokens: 6 })).toEqual(tokens);
  });

  test('several stand on one model, at the same time', async () => {
    const under = ['streaming', 'knorm', 'lagkv'].map((name) => policy(name)),
      models = await Promise.all(under.map((p) => withPolicy(plain.model, { policy: p, ...SETTINGS }))),
      run = (model: (typeof models)[number]): Promise<number[]> =>
        generated(model, inputsOf(plain), { max_new_tokens: 6 }),
      alone = [];
    for (const model of models) alone.push(await run(model));
    expect(await Promise.all(models.map(run))).toEqual(alone);
  });

  test('a conversation goes on over its cache, which has seen its beginning; a fork goes its own way', async () => {
    const { model, tokenizer } = plain,
      kept = await withPolicy(model, { policy: 'streaming', budget: 30 }),
      cache = new DynamicCache(),
      first = await kept.generate({
        ...inputsOf(plain),
        do_sample: false,
        max_new_tokens: 5,
        past_key_values: cache,
      } as never),
      seen = idsOf(first),
      more = [...seen, ...(tokenizer.encode(' And of Bo?', { add_special_tokens: false }) as number[])],
      next = (ids: readonly number[]): Prompted => ({
        input_ids: new Tensor('int64', BigInt64Array.from(ids, BigInt), [1, ids.length]),
        attention_mask: new Tensor('int64', new BigInt64Array(ids.length).fill(1n), [1, ids.length]),
      }),
      fork = kept.fork(cache),
      before = kept.stats(cache);
    const answer = await generated(kept, next(more), { max_new_tokens: 4, past_key_values: fork });
    expect(kept.stats(cache)).toEqual(before);
    expect(kept.stats(fork).kept[0][0].at(-1)).toBe(more.length - 1);
    expect(await generated(kept, next(more), { max_new_tokens: 4, past_key_values: cache })).toEqual(answer);
    await expect(
      generated(kept, next([9, ...more.slice(1), 5, 5, 5, 5, 5]), { max_new_tokens: 4, past_key_values: cache }),
    ).rejects.toThrow(
      /^generate: expected a conversation that goes on after the \d+ tokens that its cache has seen, got \d+ that do not/,
    );
    // what it has read is not read again
    await expect(generated(kept, next(more), { max_new_tokens: 4, past_key_values: cache })).rejects.toThrow(
      /to ask otherwise, fork the cache before the answer$/,
    );
    await expect(
      withPolicy(model, { policy: policy('streaming'), budget: 30 }).then((other) =>
        generated(other, next(more), { max_new_tokens: 4, past_key_values: cache }),
      ),
    ).rejects.toThrow('generate: expected a cache that this model filled, got one that another did');
  });

  test('an event that fails leaves the sequence as it was', async () => {
    let fail = false;
    const brittle = scorer('brittle', { needs: [] }, ({ ops, at }) => {
      if (fail) throw new Error('no');
      return ops.from({ data: Float32Array.from({ length: at.slots }, (_, i) => i), shape: [1, at.slots] });
    });
    const kept = await withPolicy(plain.model, {
        policy: compose(brittle(), mandatory({ sinks: 1 }), topK()),
        budget: 20,
        every: 2,
      }),
      cache = new DynamicCache();
    await generated(kept, inputsOf(plain), { max_new_tokens: 2, past_key_values: cache });
    const before = kept.stats(cache),
      step = (): Promise<unknown> =>
        kept.forward({ input_ids: new Tensor('int64', [5n], [1, 1]), past_key_values: cache } as never);
    fail = true;
    await expect(step()).rejects.toThrow('brittle');
    expect(kept.stats(cache)).toEqual(before);
    fail = false;
    await step();
    expect(kept.stats(cache)).toMatchObject({ events: before.events + 1, slots: 20 });
  });
});

describe('graphs', () => {
  test('one without the size of its heads gets a cache that has it', async () => {
    const { folder, tokenizer } = await exported(),
      file = join(folder, 'onnx/model.onnx'),
      bytes = readFileSync(file);
    // In the inputs of the cache the dimension 32 becomes one of an unknown field: it says nothing.
    for (let at = bytes.indexOf('past_key_values.'); at >= 0; at = bytes.indexOf('past_key_values.', at + 1)) {
      const size = bytes.indexOf(Buffer.of(0x0a, 0x02, 0x08, 32), at);
      if (size >= 0 && size < at + 120) bytes[size + 2] = 0x78;
    }
    writeFileSync(file, bytes);
    const { AutoModelForCausalLM } = await import('@huggingface/transformers'),
      model = await AutoModelForCausalLM.from_pretrained(folder, { dtype: 'fp32' }),
      metadata = (model as unknown as { sessions: { model: { inputMetadata: { name: string; shape: unknown[] }[] } } })
        .sessions.model.inputMetadata;
    expect(typeof metadata.find(({ name }) => name === 'past_key_values.0.key')?.shape[3]).not.toBe('number');
    const { tokens, want } = await compared({ model, tokenizer, folder }, policy('knorm'), policy('knorm'));
    expect(tokens).toEqual(want);
  });

  test('4 bits, and a source of bytes', async () => {
    const { model, tokenizer, folder } = await exported({ weights: ['q4'] }, 'q4'),
      options = { ...SETTINGS, policy: policy('snapkv', { window: 8 }) },
      bytes = new Uint8Array(readFileSync(join(folder, 'onnx/model_q4.onnx'))),
      by = await withPolicy(model, { ...options, source: bytes }),
      again = await withPolicy(model, { ...options, source: { model: folder, dtype: 'q4' } }),
      inputs = inputsOf({ model, tokenizer, folder });
    const tokens = await generated(by, inputs, { max_new_tokens: 6 });
    expect(await generated(again, inputs, { max_new_tokens: 6 })).toEqual(tokens);
    expect(by.stats().kept).toEqual(again.stats().kept);
    expect(new Uint8Array(readFileSync(join(folder, 'onnx/model_q4.onnx')))).toEqual(bytes);
  });

  test('bytes that are no graph, and one without attention that is known, are refused', async () => {
    const options = { ...SETTINGS, policy: policy('tova') };
    await expect(withPolicy(plain.model, { ...options, source: Uint8Array.of(0x3a, 0xff, 1) })).rejects.toThrow(
      'source: expected an ONNX model, got bytes that are no protobuf message at',
    );
    await expect(withPolicy(plain.model, { ...options, source: new Uint8Array(0) })).rejects.toThrow(
      'source: expected layer 0 to be GroupQueryAttention, MultiHeadAttention or a product of queries and keys, got no present.0.key',
    );
  });
});

test('a wrapped model that is disposed of frees its own graph; the loaded one and its siblings go on', async () => {
  const { model, tokenizer, folder } = await exported(),
    options = { budget: 40, source: folder },
    [first, second] = await Promise.all(
      [policy('knorm'), small.snapkv].map((under) => withPolicy(model, { ...options, policy: under })),
    ),
    inputs = (): Prompted => tokenizer(TEXT) as Prompted,
    want = await generated(first, inputs(), { max_new_tokens: 3 });
  await generated(second, inputs(), { max_new_tokens: 3 });
  await second.dispose();
  const log = vi.spyOn(console, 'error').mockReturnValue(); // transformers.js prints all inputs
  await expect(generated(second, inputs(), { max_new_tokens: 3 })).rejects.toThrow();
  log.mockRestore();
  await first.dispose();
  expect(await generated(first, inputs(), { max_new_tokens: 3 })).toEqual(want);
  expect(await generated(model, inputs(), { max_new_tokens: 3 })).toHaveLength(want.length);
});

describe('refused before the first token, in one sentence', () => {
  test.each([
    [() => ({ policy: policy('snapkv') }), "'snapkv ∘ topK' evicts, so a budget is expected"],
    [
      () => ({ policy: policy('snapkv'), budget: 40 }),
      "reads attention.window(w=64), which this model's graph does not give",
    ],
    [
      () => ({ policy: policy('rarity'), budget: 40 }),
      "'rarity ∘ topK' reads text, so the model's tokenizer is expected",
    ],
    [
      () => ({ policy: policy('h2o'), budget: 40 }),
      'reads the signal attention.accumulated, which this engine does not have',
    ],
    [
      () => ({ policy: policy('pyramidal'), budget: 400, source: plain.folder }),
      'gives layers or heads budgets of their own',
    ],
    [
      () => ({ policy: policy('adakv'), budget: 40, source: plain.folder }),
      'gives layers or heads budgets of their own',
    ],
    [
      () => ({ policy: 'recency | promptPart | topK', budget: 40 }),
      "'promptPart' divides each budget while an event runs, and this engine takes budgets that are known before it",
    ],
    [
      () => ({ policy: 'knorm | topK | levels', budget: 40 }),
      "'knorm ∘ topK ∘ levels' stores slots at levels of their own, which the caches of an export cannot hold",
    ],
    [() => ({ policy: policy('quest'), budget: 40 }), 'acts inside attention or moves numbers of the cache'],
    [() => ({ policy: policy('full'), budget: 40 }), "'full' leaves no kept slots"],
    [
      () => ({ policy: policy('knorm'), budget: 40, block: 0 }),
      'block: must be a positive whole number of tokens, got 0',
    ],
    [() => ({ policy: policy('knorm'), budget: 0 }), 'budget: must be a whole number of slots of at least 1'],
    [() => ({ policy: policy('knorm'), budget: '1MiB' as const }), "budget: '1MiB' needs a model's cache"],
  ] as const)('%#: %s', async (options, sentence) => {
    const error: unknown = await withPolicy(plain.model, options()).catch((cause: unknown) => cause);
    expect(error).toMatchObject({ name: 'KvError' });
    expect((error as Error).message).toContain(sentence);
    expect((error as Error).message.split('\n')).toHaveLength(1);
  });

  test('what is no model, no tokenizer, no options', async () => {
    const options = { policy: policy('knorm'), budget: 40 };
    await expect(withPolicy(plain.model, undefined as never)).rejects.toThrow(
      'withPolicy: expected policy, a policy or its text, got none',
    );
    for (const other of [undefined, plain.tokenizer])
      await expect(withPolicy(other as never, options)).rejects.toThrow(
        'withPolicy: expected a model that transformers.js has loaded, got something without config and sessions',
      );
    await expect(withPolicy(plain.model, { ...options, tokenizer: {} as never })).rejects.toThrow(
      'tokenizer: must be a tokenizer of transformers.js, got an object',
    );
  });

  test('more than one sequence, padding, no tokens', async () => {
    const kept = await withPolicy(plain.model, { policy: policy('knorm'), budget: 40 }),
      ones = (dims: number[], fill = 1n): Tensor =>
        new Tensor('int64', new BigInt64Array(dims[0] * dims[1]).fill(fill), dims);
    for (const [inputs, sentence] of [
      [
        { input_ids: ones([2, 3]), attention_mask: ones([2, 3]) },
        'expected one sequence at a time, got input_ids of [2, 3]',
      ],
      [{ input_ids: ones([1, 3]), attention_mask: ones([1, 3], 0n) }, 'expected a sequence without padding'],
    ] as const)
      await expect(generated(kept, inputs, { max_new_tokens: 2 })).rejects.toThrow(sentence);
  });

  test('models of other kinds', async () => {
    const { model } = plain,
      other = (change: object): object => Object.create(model, Object.getOwnPropertyDescriptors(change)) as object,
      config = (more: object): object => ({ config: { ...(model.config as object), ...more } });
    for (const [changed, sentence] of [
      [other(config({ is_encoder_decoder: true })), 'expected a decoder-only model, got llama'],
      [
        other({ sessions: {} }),
        'expected a model with a cache (inputs past_key_values.N.key and .value), got llama with none',
      ],
      [other(config({ model_type: 'mistral', sliding_window: 64 })), 'expected a model whose layers see all slots'],
    ] as const)
      await expect(withPolicy(changed, { policy: policy('knorm'), budget: 40 })).rejects.toThrow(sentence);
  });
});
