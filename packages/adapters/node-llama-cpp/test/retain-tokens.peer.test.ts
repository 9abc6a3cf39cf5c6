import { fileURLToPath } from 'node:url';
import fc from 'fast-check';
import { compose, scorer, state, tokens } from '@kv/core';
import { retain } from '@kv/cpu';
import type { Policy } from '@kv/core';
import { generate, loadModel } from '@kv/models';
import { parsePolicy, policy, policyNames } from '@kv/policies';
import { topK } from '@kv/selectors-top-k';
import type { LlamaContextSequence, LlamaModel, Token } from 'node-llama-cpp';
import { beforeAll, expect, test } from 'vitest';
import { retainTokens } from '../src/index.ts';
import { tokensOf } from '../src/tokens.ts';
import { answered, embeddedLlama, hybridLlama, llamaOf, sequenceOf, textOf } from './llama.ts';

let model: LlamaModel, plain: LlamaContextSequence;
beforeAll(async () => {
  model = await embeddedLlama();
  plain = await sequenceOf(model, 256);
}, 120_000);

/** The sequence with this text instead of what it held; capitals are tokens of their own. */
async function holding(text: string, sequence = plain): Promise<LlamaContextSequence> {
  await sequence.clearHistory();
  await add(sequence, text);
  return sequence;
}
const add = (sequence: LlamaContextSequence, text: string): Promise<void> =>
  sequence.evaluateWithoutGeneratingNewTokens(model.tokenize(text));
const streaming = policy('streaming', { sinks: 2 });
async function evict(sequence: LlamaContextSequence, under: Policy | string, budget: number): Promise<void> {
  await sequence.eraseContextTokenRanges(await retainTokens(sequence, { policy: under, budget }));
}

test('the model, in this engine and in @kv/models: the same ids, offsets and answer', async () => {
  const ours = await loadModel('embedded'),
    prompt = `The boys – “all” of them, naïve 🥊 – walked on. The secret code is: XK7M9P2Q. ${'The river was wide. '.repeat(9)}\nThe secret code is:`,
    { ids, offsets } = ours.tokenizer.encode(prompt),
    [, ...rest] = ids; // <s>, which llama.cpp sets by itself
  expect(model.tokenize(prompt)).toEqual(rest);
  const read = tokensOf(rest as Token[], model.tokenizer);
  expect(read.text).toBe(prompt);
  expect(read.offsets).toEqual(offsets.slice(1));
  const sequence = await sequenceOf(model, 512),
    { text } = await generate(ours, { prompt, maxNewTokens: 12, stop: ['.'] });
  expect(await answered(sequence, prompt)).toBe(text.split('.')[0].trim());
});

test('the first tokens and the newest stay, at every event by their original positions', async () => {
  const sequence = await holding('ABCDEFGHIJKLMNOP');
  await evict(sequence, streaming, 6);
  expect(textOf(sequence)).toBe('ABMNOP');
  await add(sequence, 'QRSTUV');
  await evict(sequence, streaming.label, 6);
  expect(textOf(sequence)).toBe('ABSTUV');
  expect(await retainTokens(sequence, { policy: streaming, budget: 6 })).toEqual([]);
  await expect(retainTokens(sequence, { policy: 'streming', budget: 6 })).rejects.toThrow('did you mean streaming');
});

test('a proposal that is not carried out changes nothing', async () => {
  const sequence = await holding('ABCDEFGHIJ'),
    odd = compose(
      scorer('odd', { needs: [tokens] }, ({ ops, at, tokens: { ids } }) =>
        ops.from(
          { data: Float32Array.from({ length: at.slots }, (_, i) => ids.length * (i % 2)), shape: [1, at.slots] },
          'f32',
        ),
      )(),
      topK(),
    );
  const proposed = await retainTokens(sequence, { policy: odd, budget: 4 });
  await retainTokens(sequence, { policy: streaming, budget: 4 });
  expect(await retainTokens(sequence, { policy: odd, budget: 4 })).toEqual(proposed);
});

test('what pieces remember comes along, also where token 0 stays although they dropped it', async () => {
  const looks = state('looks', { kind: 'slot', rows: 'kv' }),
    seen: number[][] = [];
  const watching = compose(
    scorer('watching', { needs: [looks] }, ({ ops, at, looks: before }) => {
      return {
        scores: ops.add(
          ops.from({ data: Float32Array.from({ length: at.slots }, (_, i) => i), shape: [1, at.slots] }, 'f32'),
          0,
        ),
        state: { looks: ops.add(before, 1) },
      };
    })(),
    topK(),
  );
  const sequence = await holding('ABCDEFGH');
  await evict(sequence, watching, 4);
  expect(textOf(sequence)).toBe('AEFGH');
  await add(sequence, 'IJ');
  const last = compose(
    scorer('watching', { needs: [looks] }, ({ ops, looks: before }) => {
      seen.push(Array.from((before as unknown as { data: Float32Array }).data));
      return { scores: ops.add(before, 0), state: { looks: ops.add(before, 1) } };
    })(),
    topK(),
  );
  await evict(sequence, last, 3);
  expect(seen).toEqual([[1, 1, 1, 1, 0, 0]]);
  expect(textOf(sequence)).toBe('AEFG');
});

test('whatever the policy and the text: what core keeps of it stays, and token 0', () =>
  fc.assert(
    fc.asyncProperty(
      fc.constantFrom('streaming', 'rarity', 'random', 'frequency', 'recency', 'structure', 'sponsorship', 'taFast'),
      fc.array(fc.string({ unit: 'grapheme', minLength: 1, maxLength: 40 }), { minLength: 1, maxLength: 3 }),
      fc.integer({ min: 8, max: 20 }),
      async (name, texts, budget) => {
        const under = policy(name as 'streaming');
        const sequence = await holding('', plain),
          all: Token[] = [];
        let held: number[] = [],
          remembered: Awaited<ReturnType<typeof retain>>['state'] = new Map();
        for (const text of texts) {
          const fresh = model.tokenize(text);
          if (sequence.contextTokens.length + fresh.length > 250) return;
          held.push(...fresh.map((_, i) => all.length + i));
          all.push(...fresh);
          await sequence.evaluateWithoutGeneratingNewTokens(fresh);
          if (held.length > budget) {
            const want = await retain(
              under,
              {
                layers: [{ positions: { data: Uint32Array.from(held), shape: [1, held.length] } }],
                queryHeads: 1,
                length: all.length,
                promptLength: all.length,
                tokens: tokensOf(all, model.tokenizer),
                state: remembered,
              },
              { budget },
            ).catch((error: Error) => error);
            if (want instanceof Error) {
              await expect(evict(sequence, under, budget)).rejects.toThrow(want.message);
              return;
            }
            held = Array.from(want.positions[0][0]);
            remembered = want.state;
          }
          await evict(sequence, under, budget);
          expect(sequence.contextTokens).toEqual([...new Set([0, ...held])].map((position) => all[position]));
          expect(sequence.nextTokenIndex).toBe(sequence.contextTokens.length);
        }
      },
    ),
    { numRuns: 60 },
  ));

test('a sequence that was given another text starts again', async () => {
  const sequence = await holding('ABCDEFGHIJKLMNOP');
  await evict(sequence, streaming, 6);
  await holding('0123456789', sequence);
  await evict(sequence, streaming, 4);
  expect(textOf(sequence)).toBe('0189');
});

const FACT = 'The secret code is: XK7M9P2Q. ',
  FILLER = [
    'The boys walked on in silence. ',
    'The river was wide and the boats lay still. ',
    'No one came to the market on that day. ',
  ];
/**
 * Feeds, bit by bit, a text of the given number of tokens whose first sentences state a code, and returns what the
 * model then says of it.
 */
async function told(sequence: LlamaContextSequence, length: number): Promise<string> {
  await add(sequence, `${FILLER[0]}${FACT}`);
  for (let n = 0, i = 0; n < length; i++) {
    const bit = model.tokenize(FILLER[i % 3]);
    await sequence.evaluateWithoutGeneratingNewTokens(bit);
    n += bit.length;
  }
  return answered(sequence, '\nThe secret code is:');
}

test('a full context: what was said three contexts ago is answered, where the oldest tokens went it is not', async () => {
  const shifts: number[] = [],
    keeping = await sequenceOf(model, 256, {
      contextShift: {
        strategy: async ({ sequence }) => {
          shifts.push(sequence.contextTokens.length);
          return retainTokens(sequence, { policy: policy('taFast', { reach: 12, slots: 16 }), budget: 160 });
        },
      },
    });
  expect(await told(keeping, 800)).toBe('XK7M9P2Q');
  expect(shifts.length).toBeGreaterThan(6);
  expect(Math.max(...shifts)).toBeLessThan(256);
  expect(await told(await sequenceOf(model, 256), 800)).not.toBe('XK7M9P2Q');
});

test('a share is one of the context, at every event, however much was seen', () =>
  fc.assert(
    fc.asyncProperty(fc.integer({ min: 5, max: 95 }), fc.integer({ min: 260, max: 900 }), async (percent, seen) => {
      const budget = `${percent}%` as const,
        sizes: number[] = [],
        sequence = await sequenceOf(model, 256, {
          contextShift: {
            strategy: async ({ sequence: full }) => {
              const ranges = await retainTokens(full, { policy: streaming, budget });
              sizes.push(full.contextTokens.length - ranges.reduce((sum, { start, end }) => sum + end - start, 0));
              return ranges;
            },
          },
        });
      await add(sequence, 'A'.repeat(seen));
      expect(sizes.length).toBeGreaterThan(0);
      expect(new Set(sizes)).toEqual(new Set([Math.floor((256 * percent) / 100)]));
      await sequence.context.dispose();
    }),
    { numRuns: 12 },
  ));

test('a policy that chooses its size and keeps a whole context ends in one sentence; token 0 stays', async () => {
  for (const text of ['rarity | mass(epsilon=0) | topK', 'recency | threshold(at=0, window=0)']) {
    const sequence = await sequenceOf(model, 256, {
      contextShift: {
        strategy: ({ sequence: full }) => retainTokens(full, { policy: text, budget: 100 }),
      },
    });
    await expect(add(sequence, 'ABCDEFGH'.repeat(40))).rejects.toThrow(
      /^retainTokens: expected a policy that leaves room in a context of 256 tokens, got '.*', which keeps 255 where the budget is 100: take one that keeps or forces fewer$/,
    );
    expect(textOf(sequence)).toBe('ABCDEFGH'.repeat(32).slice(0, 255));
  }
});

test('what it cannot do is one sentence', async () => {
  const sequence = await holding('ABCDEFGHIJKLMNOP');
  for (const [options, sentence] of [
    [{ policy: policy('knorm'), budget: 6 }, "'knorm ∘ topK' reads the signal keys, which llama.cpp keeps to itself"],
    [
      { policy: policy('snapkv'), budget: 6 },
      'reads the signal attention.window(w=64), which llama.cpp keeps to itself',
    ],
    [{ policy: policy('quest'), budget: 6 }, 'acts inside attention, which llama.cpp keeps to itself'],
    [
      { policy: 'knorm | topK | levels', budget: 6 },
      "'knorm ∘ topK ∘ levels' stores slots at levels of their own, which llama.cpp cannot hold: expected a policy without demotions such as levels",
    ],
    [{ policy: streaming, budget: '100%' }, 'budget: must leave room in a context of 256 tokens, got 256'],
    [{ policy: policy('full'), budget: 6 }, "'full' leaves no kept slots"],
    [{ policy: streaming, budget: 254 }, 'budget: must leave room in a context of 256 tokens, got 254'],
  ] as const)
    await expect(retainTokens(sequence, options)).rejects.toThrow(sentence);
  for (const other of [undefined, sequence.context])
    await expect(retainTokens(other as never, { policy: streaming, budget: 6 })).rejects.toThrow(
      'retainTokens: expected a sequence of a context, got something without contextTokens',
    );
  await expect(retainTokens(sequence, undefined as never)).rejects.toThrow(
    'retainTokens: expected policy, a policy or its text, got none',
  );
  expect(textOf(sequence)).toBe('ABCDEFGHIJKLMNOP');
});

test.each([
  [
    'windows',
    () => llamaOf(fileURLToPath(new URL('../../../model-testing/fixtures/gemma3/model.gguf', import.meta.url))),
    'one that sees 8 tokens',
  ],
  ['a convolution', hybridLlama, 'one with recurrent layers'],
])('a model with %s is refused, and holds what it held', async (_, load, kind) => {
  const sequence = await sequenceOf(await load(), 256),
    ids = [2, 3, 4, 5, 2, 3, 4, 5] as Token[];
  await sequence.evaluateWithoutGeneratingNewTokens(ids);
  await expect(retainTokens(sequence, { policy: streaming, budget: 4 })).rejects.toThrow(
    `retainTokens: expected a model of plain attention, got ${kind}, whose erased tokens would cost a new evaluation`,
  );
  expect(sequence.contextTokens).toEqual(ids);
});

test('of every policy of the catalogue: kept ranges, or one sentence that names what it reads', async () => {
  const sequence = await holding('The key of Ana is 4821. The sky was grey over the town, and the boats lay still.'),
    runs: string[] = [];
  for (const name of policyNames) {
    const under = parsePolicy(name),
      error = await retainTokens(sequence, { policy: under, budget: 20 }).then(
        () => undefined,
        (cause: Error) => cause.message,
      );
    if (error === undefined) runs.push(name);
    else
      expect(error, name).toMatch(
        /^retainTokens: '.*' (?:reads the signal \S+, which llama\.cpp keeps to itself: expected|acts inside attention|leaves no kept slots)|^budget: 20 slots are fewer than/,
      );
  }
  for (const name of ['streaming', 'rarity', 'frequency', 'structure', 'sponsorship', 'taFast', 'recency'])
    expect(runs).toContain(name);
});
