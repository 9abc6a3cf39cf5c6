import { policy } from '@kv/policies';
import { LlamaChatSession, TemplateChatWrapper } from 'node-llama-cpp';
import type { ChatHistoryItem, LlamaModel } from 'node-llama-cpp';
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
    `expected a system message and a last question of at most 10 tokens, got ${least}`,
  );
});

test('a message that never had a text is no message that lost one', async () => {
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
  expect(less).toEqual([
    chatHistory[0],
    { type: 'model', response: [''] },
    chatHistory[3],
    chatHistory[4],
    chatHistory[5],
  ]);
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
  expect(() => retainHistory({ policy: 'taFast' as never })).toThrow(
    `got the text 'taFast': policy("taFast") of @kv/policies makes a policy of it`,
  );
});
