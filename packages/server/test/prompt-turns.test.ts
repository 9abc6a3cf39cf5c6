import { loadModel } from '@kv/models';
import type { ChatMessage, Model, ToolFunction } from '@kv/models';
import { TOOL_TEMPLATES } from '@kv/model-testing/tool-templates';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { readPrompts, type PromptTokens } from '../src/protocol/prompt.ts';
import { TextReader } from '../src/protocol/text-reader.ts';

/** Gemma 4's shape: results are found from the message that has the calls, and messages of the role tool are skipped. */
const scanning = `{% if tools %}{{ tools | tojson }}{% endif %}{% for message in messages %}{% if message.role != 'tool' %}<|turn>{{ message.role }}
{% if message.tool_calls %}{% for call in message.tool_calls %}<|tool_call>call:{{ call.function.name }}{{ '{' }}{% for k, v in call.function.arguments.items() %}{{ k }}:<|"|>{{ v }}<|"|>{% endfor %}{{ '}' }}<tool_call|>{% endfor %}{% set ns = namespace(over=false) %}{% for k in range(loop.index0 + 1, messages | length) %}{% if messages[k].role != 'tool' %}{% set ns.over = true %}{% elif not ns.over %}<|tool_response>{{ messages[k].content }}<tool_response|>{% endif %}{% endfor %}{% endif %}{{ message.content }}<turn|>
{% endif %}{% endfor %}{% if add_generation_prompt %}<|turn>model
{% endif %}`;
/** Mistral's shape: tools stand before the last question. */
const moving = `{% set ns = namespace(last=0) %}{% for message in messages %}{% if message.role == 'user' %}{% set ns.last = loop.index0 %}{% endif %}{% endfor %}{% for message in messages %}{% if loop.index0 == ns.last and tools %}[AVAILABLE_TOOLS]{{ tools | tojson }}[/AVAILABLE_TOOLS]{% endif %}{% if message.role == 'system' %}[SYSTEM]{{ message.content }}[/SYSTEM]{% elif message.role == 'user' %}[INST]{{ message.content }}[/INST]{% elif message.role == 'tool' %}[TOOL_RESULTS]{{ message.content }}[/TOOL_RESULTS]{% else %}{{ message.content }}{% if message.tool_calls %}[TOOL_CALLS][{% for call in message.tool_calls %}{% if not loop.first %}, {% endif %}{"name": "{{ call.function.name }}", "arguments": {{ call.function.arguments | tojson }}, "id": "{{ call.id }}"}{% endfor %}]{% endif %}</s>{% endif %}{% endfor %}`;

const names = {
  ...{ maxNewTokens: 'max_tokens', prompt: 'messages', tools: 'tools', toolChoice: 'tool_choice', form: 'form' },
  one: (i: number) => `messages[${i}]`,
  parameters: (i: number) => `tools[${i}]`,
};
const weather: ToolFunction = {
  name: 'get_weather',
  description: 'The weather of a city',
  parameters: { type: 'object', properties: { city: { type: 'string' } } },
};

/** What reads conversations with a template, of which the model itself is never asked. */
async function reading(chatTemplate: string): Promise<{
  readonly model: Model;
  read(
    messages: readonly ChatMessage[],
    protect?: readonly ('system' | 'tools' | 'first-user')[],
  ): Promise<PromptTokens>;
}> {
  const model = await loadModel('embedded', { chatTemplate }),
    reader = new TextReader(model.tokenizer);
  return {
    model,
    async read(messages, protect = []) {
      const ask = { prompt: { messages }, tools: [weather], names, protect };
      const [tokens] = await readPrompts(ask, { model, reader }, { tokens: 2 ** 20, of: 'the test' });
      return tokens!;
    },
  };
}

const word = fc.stringMatching(/^[A-Z]{5,9}[0-9]{4}$/);
const call = (city: string, id: string): object => ({
  id,
  type: 'function',
  function: { name: 'get_weather', arguments: JSON.stringify({ city }) },
});

describe.each(Object.entries({ ...TOOL_TEMPLATES, scanning: { source: scanning } }))(
  'what follows an answer is the end of the prompt, with every result: %s',
  (_, { source }) => {
    test('for any calls', async () => {
      const { model, read } = await reading(source);
      await fc.assert(
        fc.asyncProperty(
          fc.array(word, { maxLength: 2 }),
          fc.array(word, { minLength: 2, maxLength: 2 }),
          word,
          fc.boolean(),
          async (cities, results, question, more) => {
            const messages = [
              { role: 'user', content: 'QUESTION' },
              {
                role: 'assistant',
                content: cities.length === 0 ? 'ANSWER' : '',
                ...(cities.length > 0 && { tool_calls: cities.map((city, i) => call(city, `abcdefgh${i}`)) }),
              },
              ...cities.map((_, i) => ({ role: 'tool', tool_call_id: `abcdefgh${i}`, content: results[i]! })),
              ...(more || cities.length === 0 ? [{ role: 'user', content: question }] : []),
            ];
            const { ids, turns } = await read(messages),
              rest = await turns?.starts.at(-1)?.rest('');
            if (!rest) return;
            const [whole, text] = [ids, rest].map((all) => model.tokenizer.decode(all));
            expect(whole!.endsWith(text!)).toBe(true);
            for (const { content } of messages.slice(2)) expect(text).toContain(content);
          },
        ),
        { numRuns: 20 },
      );
      model.destroy();
    });
  },
);

test('named parts are protected where they stand in the cache, though the template moves them later', async () => {
  const { model, read } = await reading(moving),
    text = (ids: readonly number[], { protect }: PromptTokens): readonly string[] =>
      protect!(ids)!.map(([from, to]) => model.tokenizer.decode(ids.slice(from, to)));
  await fc.assert(
    fc.asyncProperty(
      fc.subarray(['system', 'tools', 'first-user'] as const, { minLength: 1 }),
      fc.array(word, { minLength: 1, maxLength: 4 }),
      fc.boolean(),
      async (protect, questions, system) => {
        let messages: readonly ChatMessage[] = system ? [{ role: 'system', content: 'SYSTEM TEXT' }] : [],
          held: readonly number[] = [],
          first: readonly string[] | undefined;
        for (const question of questions) {
          messages = [...messages, { role: 'user', content: question }];
          const prompt = await read(messages, protect),
            rest = await prompt.turns?.starts[0]?.rest('');
          held = rest ? [...held, ...rest] : prompt.ids;
          first ??= text(prompt.ids, prompt);
          expect(text([...held], prompt)).toEqual(first);
          held = [...held, ...model.tokenizer.encode('ANSWER').ids];
          messages = [...messages, { role: 'assistant', content: 'ANSWER' }];
        }
      },
    ),
    { numRuns: 20 },
  );
  // a cache of something else has no such parts
  const prompt = await read([{ role: 'user', content: 'HELLO' }], ['first-user']);
  expect(prompt.protect!(model.tokenizer.encode('SOMETHING ELSE').ids)).toBe(undefined);
  model.destroy();
});
