import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { chatTemplate } from '../src/chat/chat-template.ts';
import { roleRanges } from '../src/index.ts';
import type { ChatMessage } from '../src/index.ts';

const turns = '{% for m in messages %}<|{{ m.role }}|>{{ m.content | trim }}<|end|>\n{% endfor %}';
/** Where templates write tools and system texts, as those of models do. */
const TEMPLATES = {
  'tools first': `{% if tools %}<tools>{{ tools | tojson }}</tools>\n{% endif %}${turns}`,
  'tools in the system turn, and a system text of its own': `<|system|>{% if messages[0].role == 'system' %}{{ messages[0].content | trim }}{% else %}Own words.{% endif %}{% if tools %}\n# Tools\n{% for t in tools %}{{ t | tojson }}\n{% endfor %}{% endif %}<|end|>\n{% for m in messages if m.role != 'system' %}<|{{ m.role }}|>{{ m.content }}<|end|>\n{% endfor %}`,
  'tools in the first user turn': `{% for m in messages %}<|{{ m.role }}|>{% if tools and loop.index0 == (1 if messages[0].role == 'system' else 0) %}Use {{ tools | tojson }}: {% endif %}{{ m.content | trim }}<|end|>\n{% endfor %}`,
  'tools before the system text and after it': `{% set s = messages[0].content | trim if messages[0].role == 'system' else '' %}<|system|>{% if tools %}Environment: look_up
{% endif %}Knowledge ends: December 2023

{{ s }}<|end|>
{% for m in messages if m.role != 'system' %}<|{{ m.role }}|>{% if tools and loop.first %}Answer with one of these:
{{ tools | tojson }}

{% endif %}{{ m.content | trim }}<|end|>
{% endfor %}`,
  'a turn of tools around the system text': `<|system|>You are a model.{% if tools %} Call look_up in its own channel.{% endif %}<|end|>
{% if messages[0].role == 'system' or tools %}<|developer|>{% if messages[0].role == 'system' %}# Instructions
{{ messages[0].content | trim }}{% endif %}{% if tools %}
# Tools
{{ tools | tojson }}{% endif %}<|end|>
{% endif %}{% for m in messages if m.role != 'system' %}<|{{ m.role }}|>{{ m.content }}<|end|>
{% endfor %}`,
  'the system text in the first user turn': `<bos>{% set s = messages[0].content if messages[0].role == 'system' else '' %}{% for m in messages if m.role != 'system' %}<|{{ m.role }}|>{% if loop.first and s %}{{ s | trim }}\n\n{% endif %}{{ m.content | trim }}<|end|>\n{% endfor %}`,
};
const system = { role: 'system', content: ' Be brief. ' },
  talk: readonly ChatMessage[] = [
    { role: 'user', content: 'The code is: XK7M.' },
    { role: 'assistant', content: 'The code is: XK7M.' },
    { role: 'user', content: 'The code is: XK7M.' },
  ];

describe.each(Object.entries(TEMPLATES))('%s', (_, source) => {
  const template = chatTemplate(source, 'test'),
    tools = [{ name: 'look_up' }],
    partsOf = (messages: readonly ChatMessage[], withTools: boolean) => {
      const render = (of: readonly ChatMessage[], offered: boolean) => template(of, offered ? { tools } : {}),
        text = render(messages, withTools),
        ranges = roleRanges(render, messages, text, withTools);
      return Object.fromEntries(
        Object.entries(ranges).map(([role, all]) => [role, all.map(([from, to]) => text.slice(from, to)).join('|')]),
      );
    };

  test('each part holds its text, and no other', () => {
    const parts = partsOf([system, ...talk], true),
      written = template([system], { tools }).includes('look_up') || template(talk, { tools }).includes('look_up');
    expect(parts.system).toContain('Be brief.');
    expect(parts.system).not.toMatch(/XK7M|look_up/);
    expect(parts['first-user']).toBe('The code is: XK7M.');
    if (written) expect(parts.tools).toMatch(/^[^\0]*look_up[^\0]*$/);
    else expect(parts.tools).toBe('');
    expect(parts.tools).not.toMatch(/XK7M|Be brief/);
  });
  test('a part that is not there is empty; words of the template itself are its system text', () => {
    const parts = partsOf(talk, false);
    expect(parts.tools).toBe('');
    expect(parts.system).toBe(
      source.includes('Own')
        ? '<|system|>Own words.<|end|>\n<|user|>'
        : source.includes('<bos>')
          ? '<bos><|user|>'
          : template(talk).split('The code')[0],
    );
    expect(parts['first-user']).toBe('The code is: XK7M.');
  });
});

test('whatever tools add before and after other words, the system text is without it', () => {
  const shared = fc.string({ unit: fc.constantFrom(...'ab\n'), minLength: 32, maxLength: 80 }),
    of = fc.array(fc.tuple(fc.string({ unit: fc.constantFrom(...'XY\n'), maxLength: 60 }), shared), { maxLength: 4 });
  fc.assert(
    fc.property(of, (parts) => {
      const render = ([{ content }]: readonly ChatMessage[], offered: boolean): string =>
          parts.map(([tools, words]) => (offered ? `<${tools}>` : '') + words).join('') + content,
        messages = [{ role: 'user', content: 'Q?' }],
        text = render(messages, true),
        { system, tools } = roleRanges(render, messages, text, true),
        said = (ranges: typeof system): string => ranges.map(([from, to]) => text.slice(from, to)).join('');
      expect(said(system)).toBe(parts.map(([, words]) => words).join(''));
      expect(said(tools)).toBe(parts.map(([more]) => `<${more}>`).join(''));
    }),
  );
});

test('a template that takes no conversation without tools tells its system text and them not apart', () => {
  const template = chatTemplate(
      `<|system|>{% for t in tools %}{{ t | tojson }}\n{% endfor %}<|end|>\n${turns}`,
      'test',
    ),
    tools = [{ name: 'look_up' }],
    text = template([system, ...talk], { tools }),
    ranges = roleRanges((of, offered) => template(of, offered ? { tools } : {}), [system, ...talk], text, true);
  expect(ranges.system).toEqual([[0, text.indexOf('The code')]]);
  expect(ranges.tools).toEqual(ranges.system);
});

test('a conversation without a turn has none', () => {
  const template = chatTemplate(TEMPLATES['tools first'], 'test');
  expect(roleRanges((m) => template(m), [], template([]), false)).toEqual({ system: [], tools: [], 'first-user': [] });
});
