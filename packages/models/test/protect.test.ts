import { compose, protect, selector } from '@kv/core';
import { compile } from '@kv/core/engine';
import type { AnyPiece, Policy, PositionSpan } from '@kv/core';
import { policy as policyOf, policyNames } from '@kv/policies';
import { knorm } from '@kv/scorers-knorm';
import fc from 'fast-check';
import { beforeAll, describe, expect, test } from 'vitest';
import { Chat, generate, loadCache, loadModel, saveCache, Sequence } from '../src/index.ts';
import type { Model } from '../src/index.ts';
import { placesOf, protectedSpans, type ProtectedPart } from '@kv/engine';

const TEXT =
  'You answer shortly. The wide river was wide. The code is: XK7M9P2Q. He said that the boat was old, and the river cold. And on it went, day after day, to the sea. No one knew the code. The code is:';
let model: Model, ids: readonly number[];
beforeAll(async () => {
  model = await loadModel('embedded');
  ({ ids } = model.tokenizer.encode(TEXT));
});

/** The policies of the catalogue that evict and need no file of their own; CrystalCache forces more than these budgets. */
const evicting = policyNames.filter((name) => !name.startsWith('crystalcache') && compile(policyOf(name)).evicts);
const keptAll = (kept: readonly (readonly (readonly number[])[])[], spans: readonly PositionSpan[]): boolean =>
  spans.every(([from, to]) =>
    kept.every((heads) =>
      heads.every((row) => Array.from({ length: to - from }, (_, i) => from + i).every((p) => row.includes(p))),
    ),
  );

interface Life {
  readonly name: string;
  readonly spans: readonly PositionSpan[];
  readonly budget: number;
  readonly block: number | undefined;
  readonly every: number;
  readonly steps: number;
  readonly turns: number;
}
const lives: fc.Arbitrary<Life> = fc.record({
  name: fc.constantFrom(...evicting),
  spans: fc.array(
    fc.tuple(fc.nat(45), fc.integer({ min: 1, max: 4 })).map(([from, n]): PositionSpan => [from, from + n]),
    { minLength: 1, maxLength: 3 },
  ),
  budget: fc.constant(76), // finch forces 64, and at most 12 positions are protected
  block: fc.option(fc.integer({ min: 10, max: 40 }), { nil: undefined }),
  every: fc.integer({ min: 1, max: 3 }),
  steps: fc.nat(4),
  turns: fc.nat(2),
});
/** Runs a life under a policy; after every event `look` sees what is kept. */
async function live({ block, every, steps, turns, budget }: Life, policy: Policy, look: (s: Sequence) => void) {
  const sequence = new Sequence(model);
  try {
    await sequence.prefill([...ids, ...ids.slice(0, 20)], { policy, budget, block });
    look(sequence);
    for (let turn = 0; turn <= turns; turn++) {
      for (let i = 0; i < steps; i++) await sequence.step(ids[i]!, every);
      look(sequence);
      await sequence.append(ids.slice(0, 12));
      await sequence.evict(policy, budget);
      look(sequence);
    }
  } finally {
    sequence.destroy();
  }
}

describe('protected positions', () => {
  test('stay in every layer and KV head, under any policy of the catalogue, at every event', async () => {
    await fc.assert(
      fc.asyncProperty(lives, async (life) => {
        const policy = compose(policyOf(life.name) as AnyPiece, protect({ spans: life.spans })) as Policy;
        await live(life, policy, (sequence) => expect(keptAll(sequence.kept(), life.spans)).toBe(true));
      }),
      { numRuns: 8 },
    );
  }, 60_000);

  test('go without the force: the law can fail', async () => {
    const life = { spans: [[30, 36]], budget: 24, block: undefined, every: 1, steps: 1, turns: 0, name: '' } as Life,
      { atoms, ...rest } = compose(policyOf('streaming') as AnyPiece, protect({ spans: life.spans })) as Policy;
    let lost = false;
    await live(life, { ...rest, atoms: atoms.filter(({ at }) => at !== 'protect') } as Policy, (sequence) => {
      lost ||= !keptAll(sequence.kept(), life.spans);
    });
    expect(lost).toBe(true);
  });

  test('an event of a selector that drops one fails, and evicts nothing', async () => {
    const last = selector('lastOnes', {}, ({ ops, scores, budgets }) =>
      ops.select(ops.mark(ops.select(scores, budgets), scores), budgets),
    );
    const sequence = new Sequence(model),
      policy = compose(knorm(), last(), protect({ spans: [[0, 8]] }));
    await sequence.prefill(ids, {});
    await expect(sequence.evict(policy, 10)).rejects.toThrow(
      /lastOnes, layer \d+: protected slots must be kept, got one that is dropped in row \d+, slot [0-7]$/,
    );
    expect(sequence.kept().every((heads) => heads.every((row) => row.length === ids.length))).toBe(true);
    sequence.destroy();
  });

  test('count within the budget: what does not fit is refused before anything is evicted', async () => {
    const told = '30 positions are protected, and each KV head has a budget of 20 slots';
    await expect(generate(model, { ids, policy: 'streaming', budget: 20, protect: [[0, 30]] })).rejects.toThrow(told);
    // a share yields, and says so
    const share = `${(100 * 20.5) / ids.length}%` as `${number}%`,
      yielded = await generate(model, { ids, policy: 'streaming', budget: share, protect: [[0, 30]], maxNewTokens: 1 });
    for (const row of yielded.report.kept.flat()) {
      expect(row.slice(0, 30)).toEqual(Array.from({ length: 30 }, (_, i) => i));
      expect(row.length).toBeLessThan(40);
    }
    expect(yielded.report.notes).toContainEqual(expect.stringContaining('protect(30 positions) force'));
    const later = new Sequence(model);
    await later.prefill(ids, { policy: policyOf('streaming'), budget: share });
    later.protect([[ids.length, ids.length + 25]]);
    expect(later.active.budget?.slots).toBeGreaterThanOrEqual(25);
    later.destroy();
    // 16 of snapkv's window and 12 protected ones
    await expect(generate(model, { ids, policy: 'snapkv(window=16)', budget: 24, protect: [[0, 12]] })).rejects.toThrow(
      /expected a budget of at least 28, as snapkv\(window=16.*\) and protect\(12 positions\) force them/,
    );
    const { report } = await generate(model, {
      ...{ ids, policy: 'snapkv(window=16)', budget: 28, protect: [[0, 12]], maxNewTokens: 1 },
    });
    expect(report.kept.flat().every((row) => row.length <= 28)).toBe(true);
    // sinks are counted once
    await generate(model, { ids, policy: 'streaming(sinks=4)', budget: 12, protect: [[0, 12]], maxNewTokens: 1 });
  });

  test('stay protected under a later policy, in a fork, and in a saved cache', async () => {
    const spans: readonly PositionSpan[] = [[20, 30]],
      sequence = new Sequence(model);
    sequence.protect(spans);
    await sequence.prefill(ids, { policy: policyOf('knorm'), budget: 40 });
    const fork = sequence.fork(),
      bytes = await saveCache(sequence),
      loaded = await loadCache(model, bytes, { policy: (label) => label }),
      others = [await loadCache(model, bytes), await loadCache(model, bytes, { policy: 'streaming | topK' })];
    for (const [i, each] of [sequence, fork, loaded, ...others].entries()) {
      await each.evict(i === 2 ? (each.active.policy.piece as Policy) : policyOf('streaming(sinks=1)'), 12);
      expect(keptAll(each.kept(), spans)).toBe(true);
      expect(() => each.protect([[0, 20]])).toThrow('got some that were evicted');
      expect(() => each.protect([[20, 29]])).not.toThrow();
      each.destroy();
    }
  });
});

describe('a chat', () => {
  test('keeps its system text, its first message and texts of later ones, turn after turn and under another policy', async () => {
    const chat = new Chat(model, {
        ...{ system: 'Be short.', policy: 'streaming(sinks=1)', budget: 48, maxNewTokens: 3 },
        protect: ['system', 'first-user', 'ORDER 48213976'],
      }),
      spans: PositionSpan[] = [];
    for (let turn = 0; turn < 5; turn++) {
      await chat.send(turn === 2 ? 'My number is ORDER 48213976, not ORDER.' : `The river was wide, ${turn}.`);
      if (turn === 3) await chat.retain('knorm', 44);
      const { text } = chat.sequence.progress;
      spans.push(...(turn === 0 ? placesOf('Be short.\nThe river was wide, 0.', text) : []));
      if (turn === 2) spans.push(...placesOf('ORDER 48213976', text));
      expect(keptAll(chat.sequence.kept(), spans)).toBe(true);
    }
    expect(spans).toHaveLength(2);
    expect(
      Math.max(
        ...chat.sequence
          .kept()
          .flat()
          .map((row) => row.length),
      ),
    ).toBeLessThanOrEqual(44);
    chat.destroy();
  });
  test('of a chat stay protected under a policy that comes later', async () => {
    const chat = new Chat(model, { maxNewTokens: 2, system: 'The code is XK7M.', protect: ['system'] });
    await chat.send('one and two and three');
    const [[from, to]] = chat.sequence.active.policy.protectedSpans as readonly [PositionSpan];
    await chat.retain('streaming(sinks=1)', 40);
    await chat.send('and four, five, six, seven, eight, nine, ten, eleven');
    for (const row of chat.sequence.kept().flat())
      expect(row).toEqual(expect.arrayContaining(Array.from({ length: to - from }, (_, i) => from + i)));
    chat.destroy();
  });

  test('are those of the part that is copied', async () => {
    const sequence = new Sequence(model);
    await sequence.prefill(ids);
    sequence.protect([
      [0, 10],
      [15, 25],
      [30, 40],
    ]);
    const part = sequence.fork(20);
    expect(part.active.policy.protectedSpans).toEqual([
      [0, 10],
      [15, 20],
    ]);
    for (const each of [part, sequence]) each.destroy();
  });

  test('says once which part is to be protected and is none of the conversation, as one generation does', async () => {
    const protect = ['tools', 'first-user'] as const,
      note = ["'tools' is to be protected, and the conversation has none"],
      chat = new Chat(model, { policy: 'streaming', budget: 40, maxNewTokens: 2, protect });
    for (let turn = 0; turn < 2; turn++) expect((await chat.send('Short.')).report.notes).toEqual(note);
    chat.destroy();
    const templated = await loadModel('embedded', {
      chatTemplate: '{% for m in messages %}{{ m.content }}{% endfor %}',
    });
    const { report } = await generate(templated, {
      messages: [{ role: 'user', content: 'Short.' }],
      ...{ policy: 'streaming', budget: 40, maxNewTokens: 2, protect },
    });
    expect(report.notes).toEqual(note);
    templated.destroy();
  });
  test('refuses a message of which more is protected than the budget holds, and stays as it was', async () => {
    const chat = new Chat(model, { policy: 'streaming', budget: 24, maxNewTokens: 2, protect: ['first-user'] });
    await expect(chat.send(TEXT)).rejects.toThrow(
      /\d+ positions are protected, and each KV head has a budget of 24 slots/,
    );
    expect(chat.messages).toEqual([]);
    await chat.send('Short.');
    chat.destroy();
  });
});

describe('what is protected', () => {
  const place = (protect: readonly ProtectedPart[]): readonly string[] => {
    const text = model.tokenizer;
    return protectedSpans(protect, { ids, tokenizer: text }).map(([from, to]) => text.decode(ids.slice(from, to)));
  };
  test('is every place of a text, as tokens that hold a part of it', () => {
    const places = place(['The code is']);
    expect(places).toHaveLength(2);
    for (const each of places) expect(each).toContain('The code is');
    expect(place([{ text: 'XK7M9P2Q' }])[0]).toContain('XK7M9P2Q');
    expect(place(['XK7M9P2Q', [0, 3], [2, 5]])).toHaveLength(2);
  });
  test('a place of any substring covers it, and no token less than it would do', () =>
    fc.assert(
      fc.property(fc.nat(TEXT.length - 1), fc.integer({ min: 1, max: 20 }), (from, n) => {
        const wanted = TEXT.slice(from, from + n),
          offsets = model.tokenizer.encode(TEXT).offsets;
        for (const [first, to] of placesOf(wanted, { text: TEXT, offsets })) {
          expect(TEXT.slice(offsets[first]![0], offsets[to - 1]![1])).toContain(wanted);
          expect(TEXT.slice(offsets[first]![1], offsets[to - 1]![1])).not.toContain(wanted);
        }
      }),
      { numRuns: 50 },
    ));
  test.each([
    [
      ['nowhere'],
      "protect: expected 'system', 'tools', 'first-user' or a text that stands in the prompt, got 'nowhere'",
    ],
    [[[0, 1000]], /protect: expected ranges of the \d+ positions of the prompt, got \[0, 1000\)/],
    [
      ['system'],
      "protect: expected messages, of which 'system' is a part, got a prompt without: { text: 'system' } is a text",
    ],
    [[[3, 3]], 'protect: must be up to 64 of'],
    [[''], 'protect: must be up to 64 of'],
  ])('%j is refused', async (protect: unknown, sentence) => {
    await expect(generate(model, { ids, policy: 'streaming', budget: 20, protect: protect as never })).rejects.toThrow(
      sentence,
    );
  });
});
