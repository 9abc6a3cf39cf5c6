import { TOOL_TEMPLATES } from '@kv/model-testing/tool-templates';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { chatTemplate, type ChatTemplate } from '../src/chat/chat-template.ts';
import { answersOf } from '../src/chat/tools/tool-format-of.ts';
import { templateMessages, type ConversationMessage } from '../src/chat/tools/template-messages.ts';

const turns = '{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{% endfor %}';
/** Templates that write every system message, the first alone, or reject another. */
const SYSTEM: Readonly<Record<string, ChatTemplate>> = Object.fromEntries(
  Object.entries({
    all: turns,
    called: `{% if not tools %}{{ raise_exception('tools') }}{% endif %}${turns}`,
    first: `{% if messages[0].role == 'system' %}<|system|>{{ messages[0].content }}{% endif %}{% for m in messages %}{% if m.role != 'system' %}<|{{ m.role }}|>{{ m.content }}{% endif %}{% endfor %}`,
    rejecting: `{% for m in messages %}{% if m.role == 'system' and not loop.first %}{{ raise_exception('System message must be at the beginning.') }}{% endif %}{% endfor %}${turns}`,
  }).map(([name, source]) => [name, chatTemplate(source, name)]),
);
/** Ministral's shape. */
const blocks = chatTemplate(
  "{% for m in messages %}{% if m.role == 'assistant' %}{% if m.content | length == 0 and not m.tool_calls %}{{ raise_exception('empty') }}{% endif %}{% if m.content is string %}{{ m.content }}{% else %}{% for b in m.content %}{% if b.type == 'text' %}{{ b.text }}{% else %}[THINK]{{ b.thinking }}[/THINK]{% endif %}{% endfor %}{% endif %}{% for call in m.tool_calls or [] %}[TOOL_CALLS]{{ call.function.name }}[ARGS]{{ call.function.arguments | tojson }}{% endfor %}</s>{% elif m.role == 'tool' %}[TOOL_RESULTS]{{ m.content }}[/TOOL_RESULTS]{% else %}[INST]{{ m.content }}[/INST]{% endif %}{% endfor %}",
  'blocks',
);
const templateOf = (name: string): ChatTemplate => chatTemplate(TOOL_TEMPLATES[name]!.source, name);
const word = fc.stringMatching(/^[A-Z]{4,8}$/);
const user = { role: 'user', content: 'QUESTION' };
const calls = { tool_calls: [{ id: 'abcdefghi', function: { name: 'f', arguments: '{}' } }] },
  result = { role: 'tool', tool_call_id: 'abcdefghi', content: 'RESULT' };

const tools = [
  { type: 'function', function: { name: 'f', description: '', parameters: { type: 'object', properties: {} } } },
];
describe.each(Object.entries(SYSTEM))('under a template that writes system messages: %s', (name, template) => {
  test('those at the start are all written', () => {
    fc.assert(
      fc.property(fc.array(fc.tuple(fc.constantFrom('system'), word), { minLength: 1, maxLength: 4 }), (system) => {
        const text = template(
          templateMessages(template, [...system.map(([role, content]) => ({ role, content })), user]),
          { tools },
        );
        for (const [, content] of system) expect(text).toContain(content);
        if (name === 'first') expect(text).toContain(system.map(([, content]) => content).join('\n\n'));
      }),
      { numRuns: 30 },
    );
  });
  test('a later one is written, or refused by name', () => {
    const later = [
      { role: 'system', content: 'A' },
      user,
      { role: 'assistant', content: 'B' },
      { role: 'system', content: 'LATER' },
      user,
    ];
    if (name === 'all' || name === 'called')
      expect(template(templateMessages(template, later), { tools })).toContain('LATER');
    else
      expect(() => templateMessages(template, later)).toThrow(
        /^messages\[3\]\.role: expected system messages at the start alone, .*, got 'system': give its text there, or/,
      );
  });
});

describe('reasoning of earlier answers', () => {
  const answer = (more: object): ConversationMessage => ({ role: 'assistant', content: '', ...more });

  test('is a block where the template reads it there alone, next to a text, a call, or nothing', () => {
    fc.assert(
      fc.property(word, fc.oneof(word, fc.constant('')), fc.boolean(), (thought, content, called) => {
        const text = blocks(
          templateMessages(blocks, [
            user,
            answer({ content, reasoning_content: thought, ...(called && calls) }),
            ...(called ? [result] : []),
          ]),
        );
        expect(text).toContain(`[THINK]${thought}[/THINK]${content}${called ? '[TOOL_CALLS]f' : '</s>'}`);
      }),
      { numRuns: 40 },
    );
  });

  test('of gpt-oss stands before its call, with the text that the answer had', () => {
    const template = templateOf('harmony');
    expect(
      templateMessages(template, [
        user,
        answer({ content: 'PREAMBLE', reasoning_content: 'THOUGHT', ...calls }),
        result,
      ])[1],
    ).toMatchObject({ content: '', thinking: 'THOUGHT\nPREAMBLE' });
    expect(
      templateMessages(template, [user, answer({ reasoning_content: 'THOUGHT', ...calls }), result])[1],
    ).toMatchObject({ content: '', thinking: 'THOUGHT' });
    expect(templateMessages(template, [user, answer({ content: 'PREAMBLE', ...calls }), result])[1]).toMatchObject({
      content: 'PREAMBLE',
    });
  });

  test('of LFM2 has the name that its template reads, with calls and without', () => {
    const template = templateOf('lfm2'),
      thought = { content: 'A', reasoning_content: 'THOUGHT' };
    for (const more of [[answer(thought)], [answer({ ...thought, ...calls }), result]])
      expect(templateMessages(template, [user, ...more])[1]).toMatchObject({ thinking: 'THOUGHT' });
  });
});

test('messages of one channel that follow one another are lines, however the answer is cut', () => {
  const message = (channel: string, text: string): string => `<|channel|>${channel}<|message|>${text}<|end|>`,
    reader = answersOf(templateOf('harmony'));
  fc.assert(
    fc.property(
      fc.array(fc.tuple(fc.constantFrom('analysis', 'commentary', 'final'), word), { minLength: 1, maxLength: 5 }),
      fc.integer({ min: 1, max: 9 }),
      (messages, size) => {
        const text = messages.map(([channel, said]) => message(channel, said)).join('<|start|>assistant'),
          reading = reader.reader([]),
          got = [
            ...(text.match(new RegExp(`[^]{1,${size}}`, 'g')) ?? []).flatMap((part) => reading.push(part)),
            ...reading.end(),
          ],
          parts: [string, string][] = [];
        for (const part of got)
          if (part.what === 'text' || part.what === 'reasoning')
            if (parts.at(-1)?.[0] === part.what) parts.at(-1)![1] += part.text;
            else parts.push([part.what, part.text]);
        const want: [string, string][] = [];
        for (const [channel, said] of messages) {
          const what = channel === 'analysis' ? 'reasoning' : 'text';
          if (want.at(-1)?.[0] === what) want.at(-1)![1] += `\n${said}`;
          else want.push([what, said]);
        }
        expect(parts).toEqual(want);
      },
    ),
    { numRuns: 100 },
  );
});
