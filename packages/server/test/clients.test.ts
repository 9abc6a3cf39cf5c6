import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { generateText, streamText } from 'ai';
import OpenAI from 'openai';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { serve } from './serve.ts';
import type { Serving } from './serve.ts';

let on: Serving, openai: OpenAI;
const text = 'The Paris code is: XK7M9P2Q. The river was wide. The boys walked on. The Paris code is:',
  messages = [{ role: 'user' as const, content: text }];
beforeAll(async () => {
  on = await serve();
  openai = new OpenAI({ baseURL: `${on.url}/v1`, apiKey: 'any', maxRetries: 0 });
});
afterAll(() => on.server.close());

const idle = async (): Promise<number> => {
  for (let i = 0; i < 200 && on.server.memory.sequences > 0; i++)
    await new Promise((resolve) => setTimeout(resolve, 10));
  return on.server.memory.sequences;
};

describe('openai', () => {
  test('chat, whole and streamed', async () => {
    const whole = await openai.chat.completions.create({
      model: 'embedded',
      messages,
      temperature: 0,
      max_tokens: 9,
      stop: '.',
    });
    expect(whole.choices[0].message.content).toBe(' XK7M9P2Q');
    let said = '';
    const stream = await openai.chat.completions.create({
      model: 'embedded',
      messages,
      temperature: 0,
      max_tokens: 9,
      stop: '.',
      stream: true,
    });
    for await (const { choices } of stream) said += choices[0]?.delta.content ?? '';
    expect(said).toBe(' XK7M9P2Q');
  });
  test('completions, models, extension fields, errors', async () => {
    const { choices } = await openai.completions.create({
      model: 'embedded',
      prompt: [text, text],
      temperature: 0,
      max_tokens: 9,
      stop: ['.'],
    });
    expect(choices.map(({ text }) => text)).toEqual([' XK7M9P2Q', ' XK7M9P2Q']);
    expect((await openai.models.list()).data.map(({ id }) => id)).toEqual(['embedded']);
    const bounded = { model: 'embedded', messages, max_tokens: 2, policy: 'snapkv(window=4)', budget: '50%' };
    const { usage } = await openai.chat.completions.create(bounded);
    expect((usage as unknown as { dropped_slots: number }).dropped_slots).toBeGreaterThan(0);
    await expect(openai.chat.completions.create({ model: 'gpt', messages })).rejects.toThrow(OpenAI.NotFoundError);
    await expect(
      openai.chat.completions.create({
        model: 'embedded',
        messages,
        tools: [{ type: 'function', function: { name: 'f' } }],
      }),
    ).rejects.toThrow("400 'tools' is not supported, since the chat template of this model writes no calls");
  });
  test('an answer goes back into the conversation, whole and streamed', async () => {
    const more = { model: 'embedded', temperature: 0, max_tokens: 4 };
    const first = await openai.chat.completions.create({ ...more, messages }),
      streamed = await openai.chat.completions.stream({ ...more, messages }).finalChatCompletion();
    for (const { choices, _request_id: id } of [first, streamed as typeof first]) {
      const again = [...messages, choices[0].message, ...messages];
      const { choices: next } = await openai.chat.completions.create({
        ...more,
        messages: again,
        ...{ store: false, metadata: { by: 'test' }, service_tier: 'auto', tools: [], tool_choice: 'none' },
      });
      expect(next[0].finish_reason).toBe('length');
      if (choices === first.choices) expect(id).toMatch(/^req_/);
    }
  });
  test('the stream helper has the log-probabilities of each token once, and what a whole answer says', async () => {
    const ask = { model: 'embedded', messages, temperature: 0, max_tokens: 5, n: 2, logprobs: true, top_logprobs: 1 },
      whole = await openai.chat.completions.create(ask),
      streamed = await openai.chat.completions.stream(ask).finalChatCompletion();
    const said = ({ choices }: Pick<typeof whole, 'choices'>): unknown =>
      choices.map(({ message: { content }, logprobs, finish_reason }) => [
        content,
        logprobs?.content?.map(({ token }) => token),
        finish_reason,
      ]);
    expect(said(streamed)).toEqual(said(whole));
  });
  test('input items are listed from the newest on, or as they came, in pages', async () => {
    const input = Array.from({ length: 5 }, (_, i) => ({ role: 'user' as const, content: `Line ${i}.` })),
      { id } = await openai.responses.create({ model: 'embedded', input, max_output_tokens: 1 }),
      listed = async (query: object): Promise<readonly string[]> => {
        const texts: string[] = [];
        for await (const item of openai.responses.inputItems.list(id, query))
          texts.push((item as unknown as { content: [{ text: string }] }).content[0].text);
        return texts;
      },
      all = input.map(({ content }) => content);
    for (let limit = 1; limit < 7; limit++) {
      expect(await listed({ limit, order: 'asc' })).toEqual(all);
      expect(await listed({ limit })).toEqual(all.toReversed());
    }
    const { data, has_more: more } = await openai.responses.inputItems.list(id, { limit: 2, order: 'asc' });
    expect([data.length, more]).toEqual([2, true]);
    expect(await listed({ order: 'asc', after: data[1].id })).toEqual(all.slice(2));
    for (const query of [{ limit: 0 }, { limit: 101 }, { order: 'up' }, { after: 'msg_none' }, { before: 'a' }])
      await expect(listed(query)).rejects.toThrow(new RegExp(`^400 '${Object.keys(query)[0]}' `));
  });
  test('an abort gives everything back', async () => {
    const stream = await openai.chat.completions.create({
      model: 'embedded',
      messages,
      max_tokens: 3000,
      stop: [],
      stream: true,
      temperature: 2,
    });
    let seen = 0;
    for await (const _ of stream) if (++seen === 3) break;
    stream.controller.abort();
    expect(await idle()).toBe(0);
  });
});

describe('ai with @ai-sdk/openai-compatible', () => {
  test('text, whole and streamed', async () => {
    const provider = createOpenAICompatible({ name: 'kv', baseURL: `${on.url}/v1`, includeUsage: true });
    const options = { model: provider('embedded'), messages, temperature: 0, maxOutputTokens: 9, stopSequences: ['.'] };
    const { text: whole, usage } = await generateText(options);
    expect(whole.trim()).toBe('XK7M9P2Q');
    expect(usage.outputTokens).toBeGreaterThan(3);
    let said = '';
    for await (const part of streamText(options).textStream) said += part;
    expect(said.trim()).toBe('XK7M9P2Q');
    const { text: completed } = await generateText({
      ...options,
      messages: undefined,
      model: provider.completionModel('embedded'),
      prompt: text,
    } as Parameters<typeof generateText>[0]);
    expect(typeof completed).toBe('string');
  });
});
