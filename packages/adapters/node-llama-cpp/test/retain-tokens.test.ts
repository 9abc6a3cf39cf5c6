import fc from 'fast-check';
import { policy } from '@kv/policies';
import { expect, test } from 'vitest';
import {
  retainHistory,
  retainTokens,
  type HistoryItem,
  type LlamaSequenceLike,
  type TokenRange,
} from '../src/index.ts';

/** A sequence as node-llama-cpp keeps one: a list of tokens, here characters, of which ranges are erased. */
class Characters implements LlamaSequenceLike {
  contextTokens: number[] = [];
  readonly context = { contextSize: 100 };
  readonly model = {
    detokenize: (tokens: readonly number[]): string => String.fromCharCode(...tokens),
    fileInsights: {} as { swaSize?: number },
  };
  add(text: string): this {
    this.contextTokens.push(...Array.from(text, (c) => c.charCodeAt(0)));
    return this;
  }
  erase(ranges: readonly TokenRange[]): void {
    this.contextTokens = this.contextTokens.filter((_, i) => !ranges.some(({ start, end }) => start <= i && i < end));
  }
  get text(): string {
    return this.model.detokenize(this.contextTokens);
  }
}
const streaming = policy('streaming', { sinks: 2 });

test('the first tokens and the newest stay, at every event by their original positions', async () => {
  const sequence = new Characters().add('abcdefghijklmnop');
  sequence.erase(await retainTokens(sequence, { policy: streaming, budget: 6 }));
  expect(sequence.text).toBe('abmnop');
  sequence.add('qrstuv');
  sequence.erase(await retainTokens(sequence, { policy: streaming, budget: 6 }));
  expect(sequence.text).toBe('abstuv');
  expect(await retainTokens(sequence, { policy: streaming, budget: 6 })).toEqual([]);
});

test('whatever the policy and the text: ranges ascend apart, token 0 stays, and the budget is kept beside it', () =>
  fc.assert(
    fc.asyncProperty(
      fc.constantFrom('streaming', 'rarity', 'random', 'frequency', 'recency', 'structure', 'sponsorship', 'taFast'),
      fc.array(fc.string({ minLength: 1, maxLength: 40 }), { minLength: 1, maxLength: 3 }),
      fc.integer({ min: 8, max: 20 }),
      async (name, texts, budget) => {
        const sequence = new Characters(),
          under = policy(name as 'streaming');
        for (const text of texts) {
          const first = sequence.add(text).contextTokens[0],
            ranges = await retainTokens(sequence, { policy: under, budget }).catch((error: Error) => {
              if (!error.message.includes('slots are forced')) throw error;
              return [];
            });
          for (const [i, { start, end }] of ranges.entries()) {
            expect(start).toBeGreaterThan(ranges[i - 1]?.end ?? 0);
            expect(end).toBeGreaterThan(start);
          }
          if (ranges.length > 0) {
            sequence.erase(ranges);
            expect(sequence.contextTokens.length).toBeLessThanOrEqual(budget + 1);
          }
          expect(sequence.contextTokens[0]).toBe(first);
        }
      },
    ),
    { numRuns: 60 },
  ));

test('a sequence that was given another text begins anew', async () => {
  const sequence = new Characters().add('abcdefghijklmnop');
  sequence.erase(await retainTokens(sequence, { policy: streaming, budget: 6 }));
  sequence.contextTokens = [];
  sequence.add('0123456789');
  sequence.erase(await retainTokens(sequence, { policy: streaming, budget: 4 }));
  expect(sequence.text).toBe('0189');
});

test('what it cannot do is one sentence', async () => {
  const sequence = new Characters().add('abcdefghijklmnop');
  for (const [options, sentence] of [
    [{ policy: policy('knorm'), budget: 6 }, "'knorm ∘ topK' reads the signal keys, which llama.cpp keeps to itself"],
    [
      { policy: policy('snapkv'), budget: 6 },
      'reads the signal attention.window(w=64), which llama.cpp keeps to itself',
    ],
    [{ policy: policy('quest'), budget: 6 }, 'acts inside attention, which llama.cpp keeps to itself'],
    [{ policy: policy('full'), budget: 6 }, "'full' leaves no kept slots"],
    [{ policy: streaming, budget: 100 }, 'budget: must leave room in a context of 100 tokens, got 100'],
  ] as const)
    await expect(retainTokens(sequence, options)).rejects.toThrow(sentence);
  sequence.model.fileInsights.swaSize = 64;
  await expect(retainTokens(sequence, { policy: streaming, budget: 6 })).rejects.toThrow(
    'expected a model of plain attention, got one that sees 64 tokens',
  );
});

test('a history loses whole sentences, and fits', async () => {
  const history: HistoryItem[] = [
      { type: 'system', text: 'Be brief.' },
      { type: 'user', text: 'The password of Ana is Qx7 9zK. The sky is blue today. Clouds pass by now.' },
      { type: 'model', response: ['I see. That is nice.'] },
      { type: 'user', text: 'What is the password?' },
      { type: 'model', response: [] },
    ],
    read = Object.assign((text: string) => Array.from(text, (c) => c.charCodeAt(0)), {
      detokenize: (tokens: readonly number[]) => String.fromCharCode(...tokens),
    }),
    words = (items: readonly HistoryItem[]): string =>
      items.map((item) => (item.type === 'model' ? item.response.join('') : String(item.text))).join(''),
    chatWrapper = {
      generateContextState: ({ chatHistory }: { chatHistory: readonly HistoryItem[] }) => ({
        contextText: { tokenize: () => read(words(chatHistory)) },
      }),
    };
  const shift = { chatHistory: history, maxTokensCount: 80, tokenizer: read, chatWrapper },
    { chatHistory: less } = await retainHistory({ policy: streaming })(shift);
  expect(words(less).length).toBeLessThanOrEqual(80);
  expect([less[0], less.at(-2), less.at(-1)]).toEqual([history[0], history[3], history[4]]);
  for (const item of less)
    for (const sentence of words([item]).split(/(?<=[.?]) /)) expect(words(history)).toContain(sentence);
  expect(await retainHistory({ policy: streaming })({ ...shift, maxTokensCount: 1000 })).toEqual({
    chatHistory: history,
  });
  await expect(retainHistory({ policy: streaming })({ ...shift, maxTokensCount: 10 })).rejects.toThrow(
    'expected a system message and a last question of at most 10 tokens, got 30',
  );
});
