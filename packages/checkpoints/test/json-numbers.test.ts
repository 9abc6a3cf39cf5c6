import { TOOL_TEMPLATES } from '@kv/model-testing/tool-templates';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { chatTemplate } from '../src/chat/chat-template.ts';
import { templateMessages } from '../src/chat/tools/template-messages.ts';
import { parseExactJson, writeExactJson } from '../src/read/json-numbers.ts';

const whole = fc.bigInt(-(10n ** 30n), 10n ** 30n).map(String),
  number = fc.oneof(whole, fc.constantFrom('1.0', '-0', '1e3', '0.50', '1E-7', '2.5E+10')),
  text = fc.string({ unit: fc.constantFrom('"', '\\', '1', '.', '0', 'é', '\n', '1234567890123456789') });
/** JSON as somebody wrote it, without space. */
const { written } = fc.letrec<{ written: string }>((tie) => ({
  written: fc.oneof(
    { depthSize: 'small' },
    number,
    text.map((each) => JSON.stringify(each)),
    fc.constantFrom('true', 'null'),
    fc.array(tie('written'), { maxLength: 3 }).map((items) => `[${items.join(',')}]`),
    fc
      .uniqueArray(fc.tuple(fc.stringMatching(/^[a-z"1]{1,4}$/), tie('written')), {
        maxLength: 3,
        selector: ([key]) => key,
      })
      .map((fields) => `{${fields.map(([key, one]) => `${JSON.stringify(`k${key}`)}:${one}`).join(',')}}`),
  ),
}));

test('numbers are written as they were, and their values are those of JSON.parse', () => {
  fc.assert(
    fc.property(written, (each) => {
      const inList = `[${each}]`;
      expect(writeExactJson(parseExactJson(inList))).toBe(inList);
      expect(parseExactJson(inList)).toEqual(JSON.parse(inList));
    }),
    { numRuns: 300 },
  );
});

test('other plain data is written as JSON.stringify does, and a number that was changed as it is now', () => {
  fc.assert(
    fc.property(fc.jsonValue(), (value) => {
      expect(writeExactJson({ value, left: undefined })).toBe(JSON.stringify({ value, left: undefined }));
    }),
  );
  const changed = parseExactJson('{"a":1.0}') as { a: number };
  changed.a = 2;
  expect(writeExactJson(changed)).toBe('{"a":2}');
});

test('a template writes the numbers of calls as Python does: every digit, and 1.0', () => {
  for (const name of ['hermes', 'mistral'])
    fc.assert(
      fc.property(whole, (digits) => {
        const template = chatTemplate(TOOL_TEMPLATES[name]!.source, name),
          call = {
            id: 'abcdefghi',
            function: { name: 'f', arguments: `{"id":${digits},"x":1.0,"y":[1e3,${digits}]}` },
          };
        expect(
          template(
            templateMessages(template, [
              { role: 'user', content: 'Q' },
              { role: 'assistant', content: '', tool_calls: [call] },
            ]),
          ),
        ).toContain(`{"id": ${digits}, "x": 1.0, "y": [1000.0, ${digits}]}`);
      }),
      { numRuns: 30 },
    );
});
