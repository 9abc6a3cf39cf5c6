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

test.each(Object.keys(TOOL_TEMPLATES))(
  '%s takes keywords that ask for nothing, and required names without a schema',
  (format) => {
    const structure = (parameters: object): unknown =>
      toolFormatOf(chatTemplate(TOOL_TEMPLATES[format]!.source, format))!.structure(
        [{ name: 'f', parameters }],
        'required',
        true,
      );
    const idle = { propertyNames: { type: 'string' }, minProperties: 0, unevaluatedProperties: true },
      text = { type: 'string' };
    for (const one of [
      { type: 'object', additionalProperties: text, ...idle },
      { type: 'object', additionalProperties: text, propertyNames: true },
      { type: ['object', 'string'], propertyNames: {} },
      { type: 'array', items: text, uniqueItems: false, unevaluatedItems: true },
      { type: 'object', properties: { b: text }, required: ['b', 'c'], ...idle },
    ])
      expect(
        structure({ type: 'object', properties: { a: one }, required: ['a', 'z'] }),
        JSON.stringify(one),
      ).toBeDefined();
    if (['gemma4', 'lfm2', 'qwen3-coder'].includes(format))
      expect(() =>
        structure({
          type: 'object',
          properties: { a: { propertyNames: { pattern: 'a' }, type: ['object', 'string'] } },
        }),
      ).toThrow('cannot be held to propertyNames; leave it out');
  },
);
