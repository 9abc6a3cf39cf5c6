import { cacheForms, foldedBytes, policySizes, slotSizes } from '@kv/engine';
import type { CacheForm } from '@kv/engine';
import { KvError } from '@kv/core';
import { budgetText, compile } from '@kv/core/engine';
import { parsePolicy, policy as policyOf } from '@kv/policies';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { Chat, createPrefixStore, generate, loadCache, loadModel, saveCache, Sequence } from '../../src/index.ts';
import { fixture } from '@kv/model-testing/fixture';
import { goldenFolder, goldenOf } from './goldens.ts';

const model = await loadModel(goldenFolder('qwen3')), // heads of 32 channels, which every form fits
  windows = await loadModel(fixture('gemma2')), // sliding windows of 8 in every second layer
  { ids } = goldenOf('qwen3');
const FORMS = Object.keys(cacheForms) as readonly CacheForm[];
/** Policies that score, share slots out unevenly over heads or layers, or move slots. */
const POLICIES = [
  'snapkv(window=4)',
  'snapkv(window=4) | adaKV | topK',
  'pyramidal(window=4)',
  'streaming(sinks=2) | rerotate',
] as const;

const live = ({ memory }: Sequence): number => memory.ledger.entry('cache').live;

describe('bytes of the cache are at most the budget', () => {
  test.each(POLICIES)('under %s after every event, in every form, also once slots are moved', async (name) => {
    for (const [i, form] of FORMS.entries()) {
      const { bytesPerSlot } = slotSizes(model.config, form),
        bytes = Math.floor((12 + 1.7 * i) * bytesPerSlot), // with 12.0 slots, those that move have no room for rotations
        moves = i % 2 === 0, // 44 rotary positions are not enough for all tokens
        sequence = new Sequence(model, undefined, { cache: form, ...(moves && { window: 44 }) });
      try {
        await sequence.prefill(ids.slice(0, 40), {
          policy: name,
          budget: { bytes },
          ...(i % 2 === 1 && { block: 24 }),
        });
        expect(live(sequence)).toBeLessThanOrEqual(bytes);
        for (let t = 0; t < 6; t++) await sequence.step(ids[40 + t], 3);
        expect(live(sequence)).toBeLessThanOrEqual(bytes);
        expect(sequence.progress.shift > 0).toBe(moves || name.includes('rerotate'));
        await sequence.evict(name, `${bytes - 2 * bytesPerSlot}B`);
        expect(live(sequence)).toBeLessThanOrEqual(bytes - 2 * bytesPerSlot);
      } finally {
        sequence.destroy();
      }
    }
  });
  test('and no slot is wasted where all heads keep the same', async () => {
    for (const form of FORMS) {
      const { bytesPerSlot } = slotSizes(model.config, form),
        sequence = new Sequence(model, undefined, { cache: form });
      await sequence.prefill(ids.slice(0, 30), { policy: 'knorm', budget: { bytes: 24 * bytesPerSlot - 1 } });
      expect(live(sequence)).toBe(23 * bytesPerSlot);
      sequence.destroy();
    }
  });
  test('with sliding windows too, whose layers may hold less', async () => {
    const { bytesPerSlot } = slotSizes(windows.config, 'q8'),
      sequence = new Sequence(windows, undefined, { cache: 'q8' });
    await sequence.prefill(
      ids.slice(0, 40).map((id) => id % windows.config.vocab),
      { policy: 'knorm', budget: { bytes: 20 * bytesPerSlot } },
    );
    expect(sequence.kept().map(([head]) => head.length)).toEqual([8, 20, 8]);
    expect(live(sequence)).toBeLessThanOrEqual(20 * bytesPerSlot);
    sequence.destroy();
  });
});

describe('bytes are at most the budget whatever came before', async () => {
  const models = [model, await loadModel(fixture('gemma4-keys'))], // the second's layers have heads of two widths
    texts = models.map(({ config }) => Array.from({ length: 70 }, (_, i) => (i * 37 + (i >> 3)) % config.vocab)),
    cases = [
      'snapkv(window=4) | topK',
      'snapkv(window=4) | modelWide | topK',
      'cake(window=4)',
      'pyramidal(window=4)',
      'snapkv(window=4) | topK | modelWide | levels(q8=0.9,q4=0.1)',
      'snapkv(window=4) | topK | modelWide | levels(q8=0.9,q4=0.1) | merge',
      'snapkv(window=4) | topK | levels(q8=0.5,q4=0.5)',
      'snapkv(window=4) | adaKV | topK | fit',
      'snapkv(window=4) | topK | moments(stretches=2)',
      'streaming(sinks=2)',
    ].map((text) => ({ text, compiled: compile(parsePolicy(text)) })),
    fits = ({ compiled }: (typeof cases)[number], wide: number): boolean => wide === 0 || !compiled.levels,
    held = ({ memory: { cache, caches }, active: { policy, attends } }: Sequence): number => {
      const folded = attends && caches.layers.some(({ states }) => attends.needs.every(({ id }) => states.has(id)));
      return cache.liveBytes + (folded ? foldedBytes(policy, caches.context.model.config, attends) : 0);
    };
  const drawn = fc
    .record({
      wide: fc.constantFrom(0, 1),
      form: fc.constantFrom(...FORMS),
      slots: fc.double({ min: 9, max: 24, noNaN: true }),
      first: fc.constantFrom(...cases),
      next: fc.constantFrom(...cases),
      window: fc.constantFrom(undefined, 48),
      block: fc.constantFrom(undefined, 13),
      through: fc.constantFrom('evict', 'chat', 'loaded' as const),
    })
    .filter(({ wide, first, next }) => fits(first, wide) && fits(next, wide));
  type Drawn = typeof drawn extends fc.Arbitrary<infer T> ? T : never;

  const holds = async ({ wide, form: asked, slots, first, next, window, block, through }: Drawn): Promise<void> => {
    const [at, text] = [models[wide], texts[wide]],
      form = wide === 0 ? asked : ('f32' as const),
      both = [first, next].map(({ compiled }) => policySizes(at.config, form, compiled, true, { demoted: true })),
      bytes = Math.max(
        ...both.map(({ bytesPerSlot, fixedBytes = 0 }) => Math.floor(slots * bytesPerSlot) + fixedBytes),
      );
    let sequence = new Sequence(at, undefined, { cache: form, ...(window !== undefined && { window }) });
    const within = (): void => expect(held(sequence)).toBeLessThanOrEqual(bytes);
    try {
      await sequence.prefill(text.slice(0, 44), {
        ...{ policy: first.text, budget: { bytes }, block, policies: [next.text] },
      });
      within();
      if (through === 'loaded') {
        const saved = await saveCache(sequence);
        sequence.destroy();
        sequence = await loadCache(at, saved, { policy: parsePolicy(first.text) });
      }
      if (through === 'chat') {
        const chat = new Chat(at, { sequence, policy: next.text, budget: { bytes }, maxNewTokens: 2 });
        await chat.send('and on');
        sequence = chat.sequence;
        within();
        return;
      }
      await sequence.evict(next.text, { bytes });
      within();
      for (let t = 0; t < 9; t++) await sequence.step(text[44 + t], 3);
      within();
    } catch (error) {
      // some policies do not follow one another, and some force more
      if (!KvError.is(error)) throw error;
    } finally {
      sequence.destroy();
    }
  };
  test('under policies that move slots between layers, demote, give biases, fold, in layers of two widths', async () => {
    await fc.assert(fc.asyncProperty(drawn, holds), { numRuns: 80 });
  }, 90_000);

  test.each([
    // layers of which no slot is demoted keep keys of 16 bits once slots are moved
    ['k8v4', 40, 'snapkv(window=4) | topK | modelWide | levels(q8=0.9,q4=0.1) | merge', 17_726],
    // the longest head has most of its layer's biases
    ['f32', undefined, 'snapkv(window=4) | adaKV | topK | fit', 20 * 8 * 2 * (2 * 4 * 32 + 8)],
  ] as const)('in %s, with a window of %s, under %s', async (cache, window, policy, bytes) => {
    const embedded = await loadModel('embedded'),
      text = Array.from({ length: 90 }, (_, i) => 2 + ((i * 37 + (i >> 3)) % 900)),
      sequence = new Sequence(embedded, undefined, { cache, ...(window !== undefined && { window }) });
    await sequence.prefill(text.slice(0, 36), { policy, budget: { bytes }, block: 13 });
    expect(live(sequence)).toBeLessThanOrEqual(bytes);
    for (const id of text.slice(36, 84)) await sequence.step(id, 6);
    expect(live(sequence)).toBeLessThanOrEqual(bytes);
    expect(live(sequence)).toBeGreaterThan(bytes / 2);
    sequence.destroy();
  });
});

describe('a budget in bytes', () => {
  const policy = policyOf('knorm'),
    prompt = ids.slice(0, 30),
    { bytesPerSlot } = slotSizes(model.config, 'q8'),
    budget = { bytes: 12.5 * bytesPerSlot };
  test('is that of generate and decoding, and the report says slots and their bytes', async () => {
    const { report } = await generate(model, {
      ...{ ids: prompt, policy, budget, cache: 'q8', maxNewTokens: 5, every: 2 },
      ...{ decodeBudget: `${11 * bytesPerSlot}B` },
    });
    expect(report).toMatchObject({ budget: 11, budgetBytes: 11 * bytesPerSlot });
    expect(report.kept.flat().map((slots) => slots.length)).toEqual(Array(8).fill(11));
  });
  test.each([
    ['budget', { policy, budget: '100B' }],
    ['decodeBudget', { policy, budget: 20, decodeBudget: { bytes: 100 }, every: 2 }],
  ] as const)('that holds no slot as %s is refused before anything runs', async (at, options) => {
    const refused = `${at}: 100B hold no slot: one slot in every layer and KV head is ${bytesPerSlot} bytes in q8`;
    await expect(generate(model, { ids: prompt, cache: 'q8', ...options })).rejects.toThrow(refused);
  });
  test('that holds fewer slots than a policy forces is refused', async () => {
    const run = generate(model, { ids: prompt, policy: 'snapkv(window=16)', budget, cache: 'q8' });
    await expect(run).rejects.toThrow(
      `budget: 12 slots, which ${budgetText(budget)} hold, are fewer than 'snapkv(window=16) ∘ topK' forces in every head: expected a budget of at least 16, as snapkv(window=16,kernel=5) forces them; a slot is ${bytesPerSlot} bytes in q8`,
    );
  });
  test('holds more slots in a coarser form; a share of a form comes to the same bytes in every form', async () => {
    const slots = { bytes: [] as number[], share: [] as number[] };
    for (const form of FORMS) {
      const one = slotSizes(model.config, form);
      for (const [name, given] of [
        ['bytes', budget],
        ['share', '10% of f16'],
      ] as const) {
        const sequence = new Sequence(model, undefined, { cache: form });
        await sequence.prefill(ids.slice(0, 60), { policy, budget: given });
        slots[name].push(live(sequence) / one.bytesPerSlot);
        const most = name === 'bytes' ? budget.bytes : 6 * one.bytesOf('f16');
        expect(live(sequence)).toBe(one.bytesPerSlot * Math.floor(most / one.bytesPerSlot));
        sequence.destroy();
      }
    }
    expect(slots).toEqual({ bytes: [3, 7, 12, 15, 21], share: [3, 6, 10, 13, 18] });
  });
  test('is kept with a saved cache, and comes to other slots in another form', async () => {
    const sequence = new Sequence(model, undefined, { cache: 'q8' });
    await sequence.prefill(prompt, { policy, budget });
    const saved = await saveCache(sequence);
    for (const [cache, slots] of [
      ['q8', 12],
      ['f16', 7],
    ] as const) {
      const loaded = await loadCache(model, saved, { policy, cache });
      expect(loaded.active.budget).toEqual({ slots, ...budget });
      loaded.destroy();
    }
    await expect(loadCache(model, saved, { policy: 'streaming(sinks=8)', cache: 'f16' })).rejects.toThrow(
      `budget: 7 slots, which ${budgetText(budget)} hold, are fewer than 'streaming(sinks=8) ∘ topK' forces`,
    );
    sequence.destroy();
  });
  test('of a saved cache asks for no slots of a form that it does not hold, where no policy evicts', async () => {
    const sequence = new Sequence(model, undefined, { cache: 'q4' });
    await sequence.prefill(prompt, { policy, budget: '2000B' });
    const loaded = await loadCache(model, await saveCache(sequence), { cache: 'f32' });
    expect(loaded.active.budget).toEqual({ slots: sequence.active.budget?.slots, bytes: 2000 });
    await expect(loaded.evict(policy, undefined as never)).rejects.toThrow('2000B hold no slot');
    for (const each of [sequence, loaded]) each.destroy();
  });
  test.each([undefined, policy])(
    'as a share of a form is as many bytes in another form on load, and under another policy',
    async (on) => {
      const sequence = new Sequence(model, undefined, { cache: 'q8' }),
        share = '40% of f16' as const,
        most = 0.4 * 30 * slotSizes(model.config, 'q8').bytesOf('f16');
      await sequence.prefill(prompt, { policy, budget: share });
      const loaded = await loadCache(model, await saveCache(sequence), { cache: 'f32', ...(on && { policy: on }) });
      expect(loaded.active.budget?.slots).toBe(Math.floor(most / slotSizes(model.config, 'f32').bytesPerSlot));
      expect(loaded.active.budget?.share).toBe(share);
      await sequence.evict('knorm | topK | rerotate', undefined as never);
      expect(live(sequence)).toBeLessThanOrEqual(most);
      for (const each of [sequence, loaded]) each.destroy();
    },
  );
  test('is that of a prefix store and of a chat, whose slots are moved at last', async () => {
    const store = createPrefixStore(model, { maxBytes: 1e6, policy, budget, cache: 'q8' });
    await store.add(prompt);
    const found = await store.sequence([...prompt, 1]);
    expect(live(found)).toBe(13 * bytesPerSlot);
    found.destroy();
    store.destroy();
    expect(() => createPrefixStore(model, { maxBytes: 1e6, policy, budget: '1B' })).toThrow('budget: 1B hold no slot');
    const chat = new Chat(model, { policy, budget: '64KiB' }),
      moved = slotSizes(model.config, 'f32', { moved: true }).bytesPerSlot,
      slots = Math.floor(2 ** 16 / moved);
    expect(await chat.retention()).toMatchObject({ slots, bytes: slots * moved });
    chat.destroy();
  });
});
