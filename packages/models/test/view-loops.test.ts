import fc from 'fast-check';
import { compose, selector } from '@kv/core';
import { compile } from '@kv/core/engine';
import type { Policy } from '@kv/core';
import { hostRuntime, referenceEngine, stepTogether } from '@kv/engine';
import { wasmRuntime } from '@kv/engine-wasm';
import { relative } from '@kv/engine-testing/run';
import { fixture } from '@kv/model-testing/fixture';
import { inTurn } from '@kv/model-testing/in-turn';
import { reference } from '@kv/model-testing/reference';
import { parsePolicy } from '@kv/policies';
import { afterAll, describe, expect, test } from 'vitest';
import { loadModel, Sequence } from '../src/index.ts';
import { modules } from './modules.ts';

const newest = modules.at(-1)![1]; // form 0 is available wherever tests run
const whole = (min: number, max: number): fc.Arbitrary<number> => fc.integer({ min, max });

/** Texts of views that choose slots, with bounds of others around some of them. */
const texts = fc
  .tuple(
    fc.oneof(
      fc
        .tuple(whole(1, 20), whole(1, 64), whole(0, 2))
        .map(([page, slots, dense]) => `quest(page=${page},slots=${slots},dense=${dense})`),
      fc
        .tuple(whole(1, 70), whole(1, 64), whole(1, 40))
        .map(([channels, slots, window]) => `doubleSparsity(channels=${channels},slots=${slots},window=${window})`),
      fc
        .tuple(whole(1, 12), whole(1, 40), whole(0, 12), whole(0, 30), fc.constantFrom('drop', 'fill'))
        .map(
          ([page, budget, sinks, recent, last]) =>
            `view(pageBounds(page=${page}) ∘ mandatory(sinks=${sinks},recent=${recent}) ∘ chunks(size=${page + 2},shared=false) ∘ wholeUnits(last=${last}), budget=${Math.max(budget, sinks + recent)})`,
        ),
      fc
        .tuple(whole(1, 40), whole(0, 30), whole(0, 30))
        .map(
          ([budget, sinks, recent]) =>
            `view(heavyChannelProducts(channels=5) ∘ mandatory(sinks=${sinks},recent=${recent}) ∘ topK, budget=${Math.max(budget, sinks + recent)})`,
        ),
      fc
        .tuple(whole(1, 14), fc.constantFrom('queries', 'keys'), whole(0, 3), whole(1, 40), whole(0, 9), whole(0, 9))
        .map(
          ([block, compare, dilation, budget, sinks, local]) =>
            `view(queryKeyProducts ∘ mandatory(sinks=${sinks},recent=${local}) ∘ topK ∘ cis(block=${block},compare=${compare},threshold=0.3,dilation=${dilation},sinks=${sinks},local=${local}), budget=${Math.max(budget, sinks + local)})`,
        ),
      fc
        .tuple(whole(1, 3), fc.constantFrom(0, 0.5), fc.constantFrom(0, 0.6), whole(0, 2), whole(7, 60))
        .map(
          ([query, heads, layers, measure, slots]) =>
            `hshare(query=${query},heads=${heads},layers=${layers},measure=${measure},sinks=2,local=5,slots=${slots},channels=7)`,
        ),
    ),
    fc.option(fc.constantFrom(0.2, 0.5, 0.9), { nil: undefined }),
  )
  .map(([text, phi]) => (phi === undefined ? text : `${text} ∘ psaw(phi=${phi})`));

/** The same policy without loops. */
const plain = (policy: Policy): Policy => ({
  ...policy,
  atoms: policy.atoms.map((atom) => {
    if (atom.at !== 'view') return atom;
    const { chooses: _, ...rest } = atom;
    return rest;
  }),
});

/** States by layer, as rows without the zeros that they end in: not every state that has room was written. */
const written = async (sequence: Sequence): Promise<object> => {
  const { states, layers } = await sequence.memory.caches.snapshot(),
    all = [states, ...layers.map((layer) => layer.states)].flatMap((some, l) =>
      some.map(({ id, columns, data }): [string, number[][]] => [
        `${id} ${l}`,
        Array.from({ length: data.length / columns }, (_, r) => {
          const row = Array.from(data.subarray(r * columns, (r + 1) * columns));
          return row.slice(0, 1 + row.findLastIndex((x) => x !== 0));
        }),
      ]),
    );
  return Object.fromEntries(all.filter(([, rows]) => rows.some((row) => row.length > 0)));
};

const kinds = [
  ['llama', reference('data/goldens/llama')],
  ['gemma2, with windows and a soft cap', fixture('gemma2')],
] as const;
describe.each(inTurn(kinds, 2))('%s', (name, path) => {
  const models = [1, 2].map((threads) => loadModel(path, { runtime: wasmRuntime(newest, { threads, exact: true }) }));
  afterAll(async () => {
    for (const model of models) (await model).destroy();
  });

  test('a view with loops shows what its equations show, and leaves the same state', async () => {
    await fc.assert(
      fc.asyncProperty(
        texts,
        whole(1, 60),
        whole(0, 1),
        fc.constantFrom(undefined, 'q8', 'f16'),
        fc.infiniteStream(whole(0, 400)),
        fc.array(fc.option(whole(1, 40), { nil: undefined }), { minLength: 5, maxLength: 5 }), // what each token evicts to
        fc.array(fc.option(whole(1, 20), { nil: undefined, freq: 4 }), { minLength: 5, maxLength: 5 }), // prompts before them
        async (text, length, threads, cache, ids, evicts, prompts) => {
          const model = await models[threads],
            policy = parsePolicy(text),
            next = (): number => ids.next().value! % model.config.vocab,
            prompt = Array.from({ length }, next),
            tokens = Array.from({ length: 5 }, next),
            sequences = [policy, plain(policy)].map((each) => ({
              each,
              sequence: new Sequence(model, undefined, { cache }),
            }));
          for (const { each, sequence } of sequences) await sequence.prefill(prompt, { policy: each });
          const [{ sequence: looped }, { sequence: asked }] = sequences,
            { caches } = looped.memory,
            { counters: counts } = caches.context,
            chooses = compile(policy)
              .hooks('view')
              .find((hook) => hook.chooses)!.chooses!;
          let acts = false;
          for (const [i, token] of tokens.entries()) {
            const slots = evicts[i];
            if (slots !== undefined)
              for (const { each, sequence } of sequences) {
                await sequence.evict('knorm | adaKV | topK', slots);
                sequence.decodeUnder(each);
              }
            const more = Array.from({ length: prompts[i] ?? 0 }, next);
            if (more.length > 0)
              for (const { each, sequence } of sequences) await sequence.prefill(more, { policy: each });
            acts ||= Array.from({ length: caches.slots.layers }, (_, l) =>
              caches.slots.layerContext(l, looped.active),
            ).some((at) => chooses.acts({ ...at, slots: at.slots + 1 }));
            if (i === 3) {
              // a copy goes on from the same state, and makes its indexes again
              const copy = looped.fork();
              await copy.step(token);
              await looped.step(token);
              expect((await copy.logits())[0], text).toEqual((await looped.logits())[0]);
              copy.destroy();
            } else await looped.step(token);
            await asked.step(token);
            expect(relative((await looped.logits())[0], (await asked.logits())[0]), `${text}, step ${i}`).toBeLessThan(
              1e-4,
            );
          }
          expect(await written(looped), text).toEqual(await written(asked));
          expect(counts.fusedPasses, text).toBeGreaterThan(4);
          // layers with windows drop what none of their queries can see
          if (name === 'llama') expect([counts.shownSlots! > 0, counts.viewReads! > 0]).toEqual([true, acts]);
          looped.destroy();
          asked.destroy();
        },
      ),
      { numRuns: name === 'llama' ? 25 : 6 },
    );
  });
});

/** The same policy, whose views run as equations. */
const resting = (policy: Policy): Policy => ({
  ...policy,
  atoms: policy.atoms.map((atom) =>
    atom.at !== 'view' || !atom.chooses
      ? atom
      : {
          ...atom,
          chooses: { ...atom.chooses, loops: atom.chooses.loops.map((loop) => ({ ...loop, rests: () => true })) },
        },
  ),
});
describe.each(['llama', 'gemma2', 'gpt_oss', 'gemma4'])('what views cost in %s', (name) => {
  const runtimes = [wasmRuntime(newest, { threads: 1, exact: true }), hostRuntime({ engine: referenceEngine() })];
  const counted = async (runtime: (typeof runtimes)[number], policy: Policy) => {
    const model = await loadModel(fixture(name), { runtime }),
      sequence = new Sequence(model, undefined, { cache: 'f32' });
    await sequence.prefill(
      Array.from({ length: 90 }, (_, i) => (i * 37) % model.config.vocab),
      { policy },
    );
    for (let i = 0; i < 6; i++) await sequence.step((i * 5) % model.config.vocab);
    const { shownSlots, viewReads } = sequence.memory.caches.context.counters;
    sequence.destroy();
    model.destroy();
    return { shownSlots, viewReads };
  };
  test.each([
    'quest(slots=24,page=8)',
    'doubleSparsity(slots=9,channels=4)',
    'psaw(phi=0.4)',
    'cpe(threshold=0.3,sinks=2,local=4,budget=20)',
    // layers that read the same slots share no sets
    ...(name === 'gemma4' ? [] : ['hshare(query=3,measure=2,sinks=2,local=4,slots=20,channels=4)']),
  ])('is the same in module and host under %s', async (text) => {
    const policy = parsePolicy(text),
      all = [];
    for (const runtime of runtimes) all.push(await counted(runtime, policy));
    all.push(await counted(runtimes[0], resting(policy)));
    expect(all[0].shownSlots).toBeGreaterThan(0);
    if (!text.startsWith('psaw')) expect(all[0].viewReads).toBeGreaterThan(0);
    for (const other of all.slice(1)) expect(other).toEqual(all[0]);
  });
  test('is left out where a view does not say what it reads', async () => {
    const { shownSlots, viewReads } = await counted(runtimes[0], parsePolicy('topKOracle(slots=9)'));
    expect([shownSlots! > 0, viewReads]).toEqual([true, undefined]);
  });
});

test('what loops keep about keys is freed once another policy is decoded under', async () => {
  const model = await loadModel(reference('data/goldens/llama'), { runtime: wasmRuntime(newest, { threads: 1 }) }),
    sequence = new Sequence(model),
    bytes: number[] = [];
  await sequence.prefill(
    Array.from({ length: 200 }, (_, i) => i % model.config.vocab),
    { policy: parsePolicy('quest(slots=64)') },
  );
  for (let i = 0; i < 5; i++) {
    sequence.decodeUnder(parsePolicy('quest(slots=64)'));
    await sequence.step(i);
    bytes.push(sequence.memory.ledger.entry('index').allocated);
  }
  expect(bytes[0]).toBeGreaterThan(0);
  expect(new Set(bytes).size).toBe(1);
  sequence.destroy();
  expect(sequence.memory.ledger.entry('index').allocated).toBe(0);
  model.destroy();
});

test('in a batch, tokens under different views get what they get alone, to the bit', async () => {
  const model = await loadModel(reference('data/goldens/llama'), { runtime: wasmRuntime(newest, { threads: 2 }) }),
    policies = [
      'quest(slots=24,page=8)',
      'full',
      'doubleSparsity(slots=9,channels=4)',
      'psaw(phi=0.4)',
      'cpe(budget=9,sinks=2,local=4)',
    ],
    ids = Array.from({ length: 60 }, (_, i) => (i * 37) % model.config.vocab);
  const start = async (text: string, i: number): Promise<Sequence> => {
    const sequence = new Sequence(model);
    await sequence.prefill(ids.slice(0, 60 - 7 * i), { policy: parsePolicy(text) });
    if (i % 2 === 0) {
      await sequence.evict('knorm | adaKV | topK', 20);
      sequence.decodeUnder(parsePolicy(text));
    }
    return sequence;
  };
  const [alone, together] = [await Promise.all(policies.map(start)), await Promise.all(policies.map(start))];
  for (const token of [7, 8, 9]) {
    expect(await stepTogether(together.map((sequence) => ({ sequence, token })))).toEqual(
      policies.map(() => undefined),
    );
    for (const [i, sequence] of alone.entries()) {
      await sequence.step(token);
      expect((await together[i].logits())[0], policies[i]).toEqual((await sequence.logits())[0]);
    }
  }
  expect(together.map(({ memory }) => memory.caches.context.counters.batchedPasses)).toEqual([3, 3, 3, 3, 3]);
  model.destroy();
});

/** The numbers of a WebAssembly function `(view, own, row, scratch)` that stores words in a row's list, and its length. */
function listing(slots: readonly number[]): string {
  const leb = (x: number): number[] => (x < 64 ? [x] : [(x & 127) | 128, x >> 7]);
  // address of the list: load(view + 56) + 4 * row * load(view + 52); of its length: load(view + 60) + 4 * row
  const row = [0x20, 2, 0x41, 4, 0x6c],
    list = [0x20, 0, 0x28, 2, 56, ...row, 0x20, 0, 0x28, 2, 52, 0x6c, 0x6a],
    count = [0x20, 0, 0x28, 2, 60, ...row, 0x6a];
  const body = [
    0,
    ...slots.flatMap((slot, i) => [...list, 0x41, ...leb(slot), 0x36, 2, ...leb(4 * i)]),
    ...[...count, 0x41, ...leb(slots.length), 0x36, 2, 0],
    0x0b,
  ];
  const section = (id: number, bytes: readonly number[]): number[] => [id, ...leb(bytes.length), ...bytes],
    text = (name: string): number[] => [name.length, ...new TextEncoder().encode(name)];
  return btoa(
    String.fromCharCode(
      ...[0, 0x61, 0x73, 0x6d, 1, 0, 0, 0],
      ...section(1, [1, 0x60, 4, 0x7f, 0x7f, 0x7f, 0x7f, 0]),
      ...section(2, [1, ...text('env'), ...text('memory'), 2, 3, 1, 0x80, 0x80, 4]),
      ...section(3, [1, 0]),
      ...section(7, [1, ...text('choose'), 0, 0]),
      ...section(10, [1, ...leb(body.length), ...body]),
    ),
  );
}

test.each([
  ['out of range', [0, 40], /a loop must list slots that ascend, each once and below 21/],
  ['unsorted', [5, 3], /a loop must list slots that ascend/],
  ['twice', [3, 3], /a loop must list slots that ascend/],
  ['not a module', undefined, /expected a loop as a WebAssembly module/],
] as const)("a third party's loop that lists slots %s is refused in one sentence", async (_, slots, sentence) => {
  const model = await loadModel(reference('data/goldens/llama'), { runtime: wasmRuntime(newest, { threads: 2 }) }),
    own = selector(
      'third',
      { source: 'a test', says: 'Lists what it likes.', loop: () => ({ bytes: slots ? listing(slots) : 'AAAA' }) },
      ({ ops, scores, budgets }) => ops.select(scores, budgets),
    ),
    chosen = parsePolicy('view(pageBounds ∘ topK, budget=8)'),
    view = chosen.atoms[0];
  if (view.at !== 'view' || !view.chooses) throw new Error('expected a view with loops');
  const last = own().atoms[0];
  if (last.at !== 'event' || !last.loop) throw new Error('expected a step with a loop');
  const policy = compose(chosen),
    hostile = {
      ...policy,
      atoms: [{ ...view, chooses: { ...view.chooses, loops: [view.chooses.loops[0], last.loop] } }],
    } as Policy;
  const prompt = Array.from({ length: 20 }, (_, i) => i),
    start = async (under: Policy): Promise<Sequence> => {
      const sequence = new Sequence(model);
      await sequence.prefill(prompt, { policy: under });
      return sequence;
    };
  await expect((await start(hostile)).step(3)).rejects.toThrow(sentence);
  // in a batch it fails alone
  const [bad, good, by] = await Promise.all([hostile, chosen, chosen].map(start));
  const [refused, fine] = await stepTogether([bad, good].map((sequence) => ({ sequence, token: 3 })));
  expect(String(refused)).toMatch(sentence);
  expect(fine).toBeUndefined();
  await by.step(3);
  expect((await good.logits())[0]).toEqual((await by.logits())[0]);
  model.destroy();
});
