import { TOOL_TEMPLATES } from '@kv/model-testing/tool-templates';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { chatTemplate } from '../src/chat/chat-template.ts';
import { toolFormatOf } from '../src/chat/tools/tool-format-of.ts';
import type { AnswerPart } from '../src/chat/tools/tool-format.ts';

const TOOLS = [{ name: 'find', parameters: { type: 'object', properties: { it: { type: 'string' } } } }];
const read = (format: string, ...texts: readonly string[]): readonly AnswerPart[] => {
  const reader = toolFormatOf(chatTemplate(TOOL_TEMPLATES[format]!.source, format))!.reader(TOOLS);
  return [...texts.flatMap((text) => reader.push(text)), ...reader.end()];
};

test.each([
  '{"type": "function", "name": "find", "parameters": {"it": "a"}}',
  '{ "name": "find", "parameters": {"it": "a"} }',
  '\n\n{"name": "find", "parameters": {"it": "a"}}',
  '<|python_tag|>{ "type":"function","name": "find", "parameters": {"it": "a"}}',
])('Llama 3 calls as it writes: %j', (text) => {
  for (const texts of [[text], [...text]])
    expect(read('llama3', ...texts)).toEqual([
      { what: 'call', call: 0, name: 'find' },
      { what: 'arguments', call: 0, text: '{"it": "a"}' },
    ]);
});

test('an object of Llama 3 that no grammar holds to a schema is text', () => {
  for (const text of [
    '{"it": 1, "name": "find", "parameters": {"it": 1}}',
    '{"parameters": {"it": 1}, "name": "find"}',
    '{"type": "object", "name": "find", "parameters": {}}',
    '\u00a0{"name": "find", "parameters": {}}',
    'Well: {"name": "find", "parameters": {}}',
  ])
    expect(
      read('llama3', ...text)
        .map((part) => ('text' in part ? part.text : part))
        .join(''),
    ).toBe(text);
});

test('the id that a model of Mistral gives its call is told, where every chat template takes it', () => {
  const id = fc.string({ unit: fc.constantFrom(...'abYZ059'), minLength: 1, maxLength: 12 });
  fc.assert(
    fc.property(id, (given) => {
      for (const [format, text] of [
        ['mistral-ids', `[TOOL_CALLS]find[CALL_ID]${given}[ARGS]{"it": "a"}`],
        ['mistral', `[TOOL_CALLS][{"name": "find", "arguments": {"it": "a"}, "id": "${given}"}]`],
      ] as const)
        expect(read(format, text)[0]).toEqual({
          ...{ what: 'call', call: 0, name: 'find' },
          ...(given.length === 9 && { id: given }),
        });
    }),
  );
});
