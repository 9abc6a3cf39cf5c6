import { policy } from '@kv/policies';
import fc from 'fast-check';
import { ChatMLChatWrapper, JinjaTemplateChatWrapper, LlamaChatSession, TemplateChatWrapper } from 'node-llama-cpp';
import type { ChatHistoryItem, ChatModelFunctionCall, ChatModelSegment, ChatWrapper, LlamaModel } from 'node-llama-cpp';
import { beforeAll, expect, test } from 'vitest';
import { retainHistory } from '../src/index.ts';
import { embeddedLlama, sequenceOf } from './llama.ts';

let model: LlamaModel;
beforeAll(async () => {
  model = await embeddedLlama();
}, 120_000);

/** A transcript without marks of who speaks. */
const chatWrapper = new TemplateChatWrapper({
  template: '{{systemPrompt}}{{history}}{{completion}}\n',
  historyTemplate: { system: '{{message}} ', user: '{{message}}', model: '{{message}} ' },
});
const words = (items: readonly ChatHistoryItem[]): string =>
  items.map((item) => (item.type === 'model' ? item.response.join('') : String(item.text))).join(' ');
const keeping = policy('taFast', { reach: 12, slots: 16 });

test('a history loses whole sentences, and fits', async () => {
  const chatHistory: ChatHistoryItem[] = [
      { type: 'system', text: 'Be brief.' },
      { type: 'user', text: 'The secret code is: QX79ZK. The sky is blue today. Clouds pass by now.' },
      { type: 'model', response: ['I see. That is nice.'] },
      { type: 'user', text: 'What is the code?' },
      { type: 'model', response: [] },
    ],
    shift = { chatHistory, tokenizer: model.tokenizer, chatWrapper, lastShiftMetadata: null },
    count = (history: ChatHistoryItem[]): number =>
      chatWrapper.generateContextState({ chatHistory: history }).contextText.tokenize(model.tokenizer).length,
    all = count(chatHistory),
    least = count([chatHistory[0], ...chatHistory.slice(3)]);
  for (let room = least + 19; room < all; room++) {
    const { chatHistory: less } = await retainHistory({ policy: keeping })({ ...shift, maxTokensCount: room });
    expect(count(less)).toBeLessThanOrEqual(room);
    expect([less[0], less.at(-2), less.at(-1)]).toEqual([chatHistory[0], chatHistory[3], chatHistory[4]]);
    for (const sentence of words(less).split(/(?<=[.?]) /)) expect(words(chatHistory)).toContain(sentence.trim());
    if (room >= least + 24) expect(words(less)).toContain('The secret code is: QX79ZK.');
  }
  expect(await retainHistory({ policy: keeping })({ ...shift, maxTokensCount: all })).toEqual({ chatHistory });
  await expect(retainHistory({ policy: keeping })({ ...shift, maxTokensCount: 10 })).rejects.toThrow(
    `expected system messages, a last question and the text after it of at most 10 tokens, got ${least}: take a larger context`,
  );
});

test('a message that never had a text is no message that lost one, but goes with its question', async () => {
  const filler = 'The sky is blue today. Clouds pass by now. '.repeat(4),
    chatHistory: ChatHistoryItem[] = [
      { type: 'user', text: '' },
      { type: 'model', response: ['', filler] },
      { type: 'user', text: filler },
      { type: 'model', response: [''] },
      { type: 'user', text: '' },
      { type: 'model', response: [] },
    ],
    { chatHistory: less } = await retainHistory({ policy: keeping })({
      ...{ chatHistory, tokenizer: model.tokenizer, chatWrapper, lastShiftMetadata: null },
      maxTokensCount: 8,
    });
  expect(less).toEqual([chatHistory[0], { type: 'model', response: [''] }, chatHistory[4], chatHistory[5]]);
});

/** A template as that of Mistral and Gemma. */
const alternating = new JinjaTemplateChatWrapper({
  template:
    "{% for m in messages %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('Conversation roles must alternate') }}{% endif %}[{{ m.role }}]{{ m.content }}{% endfor %}",
});
/** Shortens a history to a room, which is a share of what can go, and returns what is left with its tokens. */
async function shortenedTo(share: number, chatHistory: ChatHistoryItem[], wrapper: ChatWrapper, least: number) {
  const count = (history: ChatHistoryItem[]): number =>
      wrapper.generateContextState({ chatHistory: history }).contextText.tokenize(model.tokenizer).length,
    room = Math.floor(least + share * (count(chatHistory) - least)),
    { chatHistory: less } = await retainHistory({ policy: keeping })({
      ...{ chatHistory, tokenizer: model.tokenizer, chatWrapper: wrapper, lastShiftMetadata: null },
      maxTokensCount: room,
    });
  expect(count(less)).toBeLessThanOrEqual(room);
  return less;
}

test('no answer is left without its question, as templates of alternating roles demand', async () => {
  const text = fc.array(fc.constantFrom('The sky is blue today. ', 'The code is: QX79. ', 'No one came. '), {
    maxLength: 3,
  });
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.tuple(text, text), { minLength: 1, maxLength: 5 }),
      fc.double({ min: 0.05, max: 0.95, noNaN: true }),
      async (exchanges, share) => {
        const chatHistory = exchanges.flatMap(([asked, said], i): ChatHistoryItem[] => [
            { type: 'user', text: `${i}${asked.join('')}` },
            { type: 'model', response: said.length === 0 ? [''] : said },
          ]),
          rest: ChatHistoryItem[] = [
            { type: 'user', text: 'What is it?' },
            { type: 'model', response: [] },
          ],
          least = alternating.generateContextState({ chatHistory: rest }).contextText.tokenize(model.tokenizer).length,
          less = await shortenedTo(share, [...chatHistory, ...rest], alternating, least);
        for (const [i, { type }] of less.entries()) if (type === 'model') expect(less[i - 1]?.type).toBe('user');
        expect(less.slice(-2)).toEqual(rest);
      },
    ),
    { numRuns: 40 },
  );
});

test('calls with their results and thoughts go too, whole, and those of the current answer last', async () => {
  const long = 'The river was wide. '.repeat(20),
    call = (name: string): ChatModelFunctionCall => ({ type: 'functionCall', name, params: {}, result: long }),
    thought = (ended: boolean): ChatModelSegment => ({ type: 'segment', segmentType: 'thought', text: long, ended }),
    wrapper = new ChatMLChatWrapper(),
    chatHistory: ChatHistoryItem[] = [
      { type: 'system', text: 'Be brief.' },
      { type: 'user', text: 'Look it up.' },
      { type: 'model', response: [thought(false), call('old'), thought(true), 'It is wide.'] },
      { type: 'user', text: 'And now?' },
      { type: 'model', response: [call('first'), call('second'), 'It'] },
    ],
    least = wrapper
      .generateContextState({
        chatHistory: [chatHistory[0], chatHistory[3], { type: 'model', response: ['It'] }],
      })
      .contextText.tokenize(model.tokenizer).length;
  const left = new Set<string>();
  for (let share = 0; share < 1; share += 0.1) {
    const less = await shortenedTo(share, chatHistory, wrapper, least),
      parts = less.flatMap((item) => (item.type === 'model' ? item.response : []));
    for (const part of parts)
      left.add(typeof part === 'string' ? part : part.type === 'segment' ? 'thought' : part.name);
    expect(parts.filter((part) => typeof part === 'object' && part.type === 'segment').length % 2).toBe(0);
    expect(parts.at(-1)).toBe('It');
    if (!parts.some((part) => typeof part === 'object' && 'name' in part && part.name === 'second'))
      expect(parts).toEqual(['It']); // what came before the last question went before
    if (share === 0) expect(less).toHaveLength(3);
  }
  expect([...left].sort()).toEqual(['It', 'It is wide.', 'first', 'old', 'second', 'thought']);
});

test('a chat session of many contexts answers what was said at its beginning, where its own strategy does not', async () => {
  const history: ChatHistoryItem[] = [
    { type: 'system', text: 'The boys walked on in silence.' },
    { type: 'user', text: 'The secret code is: XK7M9P2Q. The river was wide. ' },
    { type: 'model', response: ['The boats lay still.'] },
  ];
  for (let i = 0; i < 40; i++)
    history.push(
      { type: 'user', text: 'No one came to the market on that day. The sky was grey over the town. ' },
      { type: 'model', response: ['The boys walked on and on. The river was wide.'] },
    );
  const asked = async (contextShift: { strategy?: ReturnType<typeof retainHistory> }): Promise<string> => {
    const contextSequence = await sequenceOf(model, 512),
      session = new LlamaChatSession({ contextSequence, chatWrapper, contextShift });
    session.setChatHistory(history);
    const answer = await session.prompt('\nThe secret code is:', {
      temperature: 0,
      maxTokens: 16,
      customStopTriggers: ['.'],
    });
    return answer.trim();
  };
  expect(await asked({ strategy: retainHistory({ policy: keeping }) })).toBe('XK7M9P2Q');
  expect(await asked({})).not.toBe('XK7M9P2Q');
});

test('what it cannot do is one sentence, before the first token', () => {
  expect(() => retainHistory({ policy: policy('knorm') })).toThrow(
    "retainHistory: 'knorm ∘ topK' reads the signal keys, which llama.cpp keeps to itself",
  );
  expect(() => retainHistory({ policy: keeping, budget: 10 } as never)).toThrow(/^retainHistory: .*budget/);
  expect(() => retainHistory(undefined as never)).toThrow(/^retainHistory: /);
});

test('a policy may be text, whose faults are told when room is needed', async () => {
  const chatHistory: ChatHistoryItem[] = [
      { type: 'user', text: 'The sky is blue today. Clouds pass by now. '.repeat(4) },
      { type: 'model', response: ['I see.'] },
      { type: 'user', text: 'What is it?' },
      { type: 'model', response: [] },
    ],
    shift = { chatHistory, tokenizer: model.tokenizer, chatWrapper, lastShiftMetadata: null, maxTokensCount: 40 };
  expect(await retainHistory({ policy: 'taFast(reach=12,slots=16)' })(shift)).toEqual(
    await retainHistory({ policy: keeping })(shift),
  );
  await expect(retainHistory({ policy: 'knorm' })(shift)).rejects.toThrow('reads the signal keys');
});
