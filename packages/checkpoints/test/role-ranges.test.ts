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
          : '<|user|>',
    );
    expect(parts['first-user']).toBe('The code is: XK7M.');
  });
});

test('a conversation without a turn has none', () => {
  const template = chatTemplate(TEMPLATES['tools first'], 'test');
  expect(roleRanges((m) => template(m), [], template([]), false)).toEqual({ system: [], tools: [], 'first-user': [] });
});
