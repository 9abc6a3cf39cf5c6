import { loadModel } from '@kv/models';
import { TOOL_TEMPLATES } from '@kv/model-testing/tool-templates';
import { afterAll, describe, expect, test } from 'vitest';
import { embedded, serve } from './serve.ts';
import type { Serving } from './serve.ts';

const turns = '{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{% endfor %}';
/** Templates by what they are told. */
const SOURCES = {
  effort: `{% if reasoning_effort is defined %}{% for i in range(reasoning_effort | length) %}river {% endfor %}{% endif %}${turns}`,
  switched: `${turns}{% if enable_thinking is defined and enable_thinking is false %}<think></think>{% endif %}`,
  always: TOOL_TEMPLATES['qwen3-coder']!.source,
  never: turns,
  none: undefined,
};
const on: Partial<Record<string, Serving>> = {};
const serving = async (name: keyof typeof SOURCES): Promise<Serving> => {
  const chatTemplate = SOURCES[name];
  return (on[name] ??= await serve({
    model: chatTemplate === undefined ? await embedded() : await loadModel('embedded', { chatTemplate }),
  }));
};
afterAll(() => Promise.all(Object.values(on).map((each) => each?.server.close())));

const messages = [{ role: 'user', content: 'Hi' }];
const PROTOCOLS = {
  chat: (level?: string) => ['/v1/chat/completions', { messages, max_tokens: 1, reasoning_effort: level }] as const,
  responses: (level?: string) =>
    ['/v1/responses', { input: 'Hi', max_output_tokens: 1, reasoning: level && { effort: level } }] as const,
  messages: (level?: string) =>
    [
      '/v1/messages',
      { model: 'embedded', messages, max_tokens: 1, output_config: level && { effort: level } },
    ] as const,
};

describe.each(Object.entries(PROTOCOLS))('effort of reasoning in %s', (protocol, asking) => {
  const usual = protocol === 'messages' ? 'high' : 'medium';
  /** The tokens of the prompt, or the refusal. */
  const ask = async (name: keyof typeof SOURCES, level?: string): Promise<number | string> => {
    const [path, body] = asking(level),
      { status, json } = await (await serving(name)).post(path, body);
    const { usage = {}, error } = json;
    return status === 200 ? usage.kv.tokens.read + usage.kv.tokens.reused : `${status} ${error.message}`;
  };

  test('is told to a template that reads it', async () => {
    const [without, low, none] = [await ask('effort'), await ask('effort', 'low'), await ask('effort', 'none')];
    expect(low).toBeGreaterThan(without as number);
    expect(none).toBeGreaterThan(low as number);
  });

  test('switches reasoning off where the template can', async () => {
    const without = await ask('switched');
    expect(await ask('switched', 'low')).toBe(without);
    expect(await ask('switched', 'none')).toBeGreaterThan(without as number);
  });

  test('is refused where no template is told, but for what is so anyway', async () => {
    for (const name of ['always', 'never', 'none'] as const) {
      const without = await ask(name),
        taken = name === 'always' ? `'${usual}'` : `'none' or '${usual}'`;
      expect(await ask(name, usual)).toBe(without);
      expect(await ask(name, 'low')).toContain(
        `must be ${taken}, since this model has no chat template that is told how much to think, got 'low'`,
      );
      if (name === 'always') expect(await ask(name, 'none')).toContain(`must be '${usual}', since`);
      else expect(await ask(name, 'none')).toBe(without);
    }
    expect(await ask('effort', 'loud')).toContain("must be one of 'none', 'minimal', 'low'");
  });
});

test('what is left of an effort is noted', async () => {
  const { json } = await (await serving('switched')).post(...PROTOCOLS.chat('low'));
  expect(json.kv.notes).toContain(
    "the chat template of this model is told whether to think and not how much: 'low' is thinking",
  );
});
