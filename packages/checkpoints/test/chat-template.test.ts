import { KvError } from '@kv/core';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { chatTemplate, readChatTemplate, type ChatMessage } from '../src/chat/chat-template.ts';
import { readVariables } from '../src/chat/template-variables.ts';
import { turnEnd } from '../src/chat/turn-end.ts';
import { fixtureJson } from '@kv/model-testing/fixture';
import { inTurn } from '@kv/model-testing/in-turn';

interface Case {
  readonly messages: readonly ChatMessage[];
  readonly tools: readonly unknown[] | null;
  readonly prompt: boolean;
  readonly text?: string;
  readonly error?: string;
}
const reference =
  fixtureJson<readonly { name: string; source: string; cases: readonly Case[] }[]>('chat-templates.json');

test.each(reference)('$name: every conversation as transformers renders it', ({ name, source, cases }) => {
  const template = chatTemplate(source, name);
  for (const { messages, tools, prompt, text, error } of cases) {
    const render = (): string =>
      template(messages, {
        addGenerationPrompt: prompt,
        bosToken: '<bos>',
        eosToken: '<eos>',
        ...(tools !== null && { tools }),
      });
    if (text !== undefined) expect(render()).toBe(text);
    else expect(render).toThrow(`${name}: the chat template rejects the conversation: ${JSON.stringify(error)}`);
  }
});

/** What Jinja2 3.1.6 renders. */
test.each([
  ['{% with a = 1, b = 2 %}{{ a + b }}{% set a = 5 %}{{ a }}{% endwith %}[{{ a }}]', '35[]'],
  ['{% set a = 1 %}{% with a = a + 1, b = a %}{{ a }}{{ b }}{% endwith %}{{ a }}', '211'],
  ['{% with %}{% set q = 1 %}{{ q }}{% endwith %}[{{ q }}]', '1[]'],
  [
    '{% for i in [1,2,3] %}{% with j = i %}{% if j == 2 %}{% continue %}{% endif %}{{ j }}{{ loop.index }}{% endwith %}{% endfor %}',
    '1133',
  ],
  ['{% for i in [1,2,3] %}{% with %}{% if i == 2 %}{% break %}{% endif %}{{ i }}{% endwith %}{% endfor %}', '1'],
  ["{% with a = 'x' if true else 'y', b = [1, 2] %}{{ a }}{{ b }}{% endwith %}", 'x[1, 2]'],
  ['a\n   {%+ if true %}\n b\n   {% endif +%}\n c\n   {%+ set x = 1 +%}\n d', 'a\n    b\n\n c\n   \n d'],
  ['  {%+ raw %} {%+ if x +%} {% endraw %} e', '   {%+ if x +%}  e'],
  ['{%+ if true -%}  a {%+ endif %}', 'a '],
  [
    '{{ 1e3 }} {{ 1_000 }} {{ 1.5e-3 }} {{ 2E+2 }} {{ -1e2 }} {{ 0x1f }} {{ 0b101 }} {{ 0o17 }} {{ 1_000 + 1 }} {{ 1e3 - 1 }}',
    '1000.0 1000 0.0015 200.0 -100.0 31 5 15 1001 999.0',
  ],
  ['{{ 1 if true else 2 }}{{ 3 in [3] }}{{ 1 and 2 }}{{ 4 is even }}{{ 5 - 3 }}{{ [1, 2][0] }}', '1True2True21'],
  [
    '{% for m in [[1,[2,3]],[4]] recursive %}({{ loop(m) if m is iterable else m }}{{ loop.depth }}{{ loop.depth0 }}{{ loop.index }}){% endfor %}',
    '((1211)((2321)(3322)212)101)((4211)102)',
  ],
  [
    '{% for n in tree recursive %}{{ n.v }}{% if n.c %}<{{ loop(n.c) }}>{% else %};{% endif %}{% endfor %}',
    '1<2;3<4;>>5;',
  ],
  ['{% for n in tree if n.v > 1 recursive %}{{ n.v }}<{{ loop(n.c) }}>{% else %}none{% endfor %}', '5<none>'],
  ['{% set recursive = [1, 2] %}{% for x in [1] + recursive recursive %}{{ x }}{% endfor %}', '112'],
  ["{% for k, v in {'a': {'b': {}}}.items() recursive %}{{ k }}{{ loop(v.items()) }}{% endfor %}", 'ab'],
  [
    "{% set x | upper %}a{{ 1 }}b{% endset %}{{ x }}{% set y | trim | replace('b', 'c') | length %} abc {% endset %}{{ y }}",
    'A1B3',
  ],
  [
    "{% filter upper|trim %} abc {% endfilter %}|{% filter replace('a', 'b|')|upper %}xax{% filter trim %} q {% endfilter %}{% endfilter %}|{% filter lower %}X{% endfilter %}",
    'ABC|XB|XQ|x',
  ],
  [
    "{{ {'role': 'u'}|attr('role') }}[{{ {'role': 'u'}|attr('role') is defined }}]{{ {'a': 1}|attr('items') is defined }}",
    '[False]True',
  ],
  ["{{ namespace(a=3)|attr('a') }}", '3'],
  [
    "{{ [[1], [2]]|sum(start=[]) }}{{ [1, 2.5]|sum }}{{ []|sum }}{{ [{'a': [1]}, {'a': [2]}]|sum('a', []) }}{{ [1]|sum(start=2) }}{{ [(1,)]|sum(start=()) }}",
    '[1, 2]3.50[1, 2]3(1,)',
  ],
  [
    "{% with a = 1 %}{% filter upper|trim %} b {% with c = 'd' %}{{ c }}{% endwith %} {% endfilter %}{% endwith %}",
    'B D',
  ],
])('%j is rendered as Jinja does', (source, text) => {
  const tree = [
    {
      v: 1,
      c: [
        { v: 2, c: [] },
        { v: 3, c: [{ v: 4, c: [] }] },
      ],
    },
    { v: 5, c: [] },
  ];
  expect(chatTemplate(source, 't')([], { variables: { tree } })).toBe(text);
});

test.each([
  '{% for x in [1] %}{{ loop([2]) }}{% endfor %}',
  "{{ ['a']|sum(start='') }}",
  '{{ [1, [2]]|sum }}',
  '{% with a = 1 %}{% endfilter %}',
  '{% filter upper|nosuch %}a{% endfilter %}',
  '{% endwith %}',
  '{% with 1 %}{% endwith %}',
  '{{ 1e }}',
  '{{ 1_ }}',
])('%j is refused, as by Jinja', (source) => {
  expect(() => chatTemplate(source, 't')([])).toThrow(/^t: the chat template cannot be rendered: /);
});

test('a loop that calls itself without end is one sentence', () => {
  const render = chatTemplate('{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}', 't');
  expect(() => render([])).toThrow(/^t: .+$/);
});

test('a whole number beyond what a double tells apart is written as Python writes it', () => {
  const render = (source: string): string => chatTemplate(source, 't')([]);
  expect(render('{{ 2**64 }} {{ -(2**53) }} {{ 2**53 - 1 }} {{ [2**70] | tojson }}')).toBe(
    '18446744073709551616 -9007199254740992 9007199254740991 [1180591620717411303424]',
  );
});

test("a checkpoint's own special tokens are filled in where none is given, or undefined is", () => {
  const template = readChatTemplate(
    { jinja: '{{ bos_token }}{{ eos_token }}', config: { bos_token: '<s>', eos_token: { content: '</s>' } } },
    't',
  )!;
  const none: object = { bosToken: undefined, eosToken: undefined };
  expect([template([]), template([], none), template([], { bosToken: 'B', eosToken: '' })]).toEqual([
    '<s></s>',
    '<s></s>',
    'B',
  ]);
});

test('variables that are given as a text are JSON where they can be, null too', () => {
  expect(readVariables('a=null, b=1,c=x y,d="q",e=')).toEqual({ a: null, b: 1, c: 'x y', d: 'q', e: '' });
});

test('an answer ends with the special token that the template writes after it', () => {
  const specials = new Map(
    [
      '<bos>',
      '<eos>',
      '<|im_end|>',
      '<|im',
      '<|eot_id|>',
      '<end_of_turn>',
      '<|end|>',
      '<|endoftext|>',
      '<|im_start|>',
    ].map((text, id) => [text, id]),
  );
  const endOf = (source: string): string | undefined => {
    const id = turnEnd(
      () => {
        const template = chatTemplate(source, 't');
        return (messages, options) => template(messages, { bosToken: '<bos>', eosToken: '<eos>', ...options });
      },
      { specials },
    );
    return [...specials].find(([, other]) => other === id)?.[0];
  };
  const ends = Object.fromEntries(reference.map(({ name, source }) => [name, endOf(source)]));
  expect(ends).toMatchObject({
    smollm2: '<|im_end|>',
    llama3: '<|eot_id|>',
    gemma2: '<end_of_turn>',
    mistral: '<eos>',
    phi3: '<|end|>',
    'qwen2.5': '<|im_end|>',
    blocks: undefined,
  });
  expect(endOf('{{ nothing() }}')).toBeUndefined();
  expect(endOf('{% for message in messages %}{{ message.content }} and more<eos>{% endfor %}')).toBeUndefined();
  expect(turnEnd(() => undefined, { specials })).toBeUndefined();
});

test('the reference has conversations that are refused and ones with tools', () => {
  const cases = reference.flatMap((one) => one.cases);
  expect([
    cases.filter((one) => one.error !== undefined).length > 0,
    cases.filter((one) => one.tools !== null && one.text?.includes('<tools>')).length > 0,
  ]).toEqual([true, true]);
});

/** The errors of a rendering's limits, whichever is reached first. */
const LIMIT =
  /more than \d+ steps|work on more than \d+ characters and items together|a value of \d+ characters or items/;

describe('a template from outside ends in one sentence', () => {
  test.each<readonly [string, string, RegExp]>([
    ['a long range', '{% for i in range(10**9) %}x{% endfor %}', /a range of 1000000000 items/],
    [
      'a range of nothing known',
      "{% for i in range('a') %}x{% endfor %}",
      /'str' object cannot be interpreted as an integer/,
    ],
    ['nested loops', '{% for i in range(99999) %}{% for j in range(99999) %}{{ j }}{% endfor %}{% endfor %}', LIMIT],
    [
      'doubling text',
      "{% set ns = namespace(s='ab') %}{% for i in range(60) %}{% set ns.s = ns.s + ns.s %}{% endfor %}",
      LIMIT,
    ],
    [
      'long text again and again',
      "{% set ns = namespace(s='ab') %}{% for i in range(20) %}{% set ns.s = ns.s + ns.s %}{% endfor %}{% for i in range(9999) %}{{ ns.s }}{% endfor %}",
      LIMIT,
    ],
    ...inTurn(
      [
        '{{ ns.s | tojson }}',
        '{{ ns.s | tojson(indent=2) }}',
        '{{ ns.s | string }}',
        '{{ ns.s | join }}',
        "{{ ns.s | join(',') }}",
        '{{ ns.s }}',
        "{{ 'a' ~ ns.s }}",
        '{{ ns.s == ns.t }}',
        '{{ ns.s < ns.t }}',
        '{% set x = {"a": ns.s} %}{{ x }}',
        '{% set x = {"a": ns.s} %}{{ x | dictsort }}',
      ],
      3,
    ).map(
      (use) =>
        [
          `a list shared 60 times in ${use}`,
          `{% set ns = namespace(s=['ab'], t=['ab']) %}{% for i in range(60) %}{% set ns.s = [ns.s, ns.s] %}{% set ns.t = [ns.t, ns.t] %}{% endfor %}${use}`,
          LIMIT,
        ] as const,
    ),
    ...inTurn(
      [
        "{{ x.replace('a', x) }}",
        "{{ x | replace('a', x) }}",
        "{{ x['replace']('', x) }}",
        '{{ x | join(x) }}',
        "{{ (x ~ '\\n') | indent(10**9) }}",
        "{{ x.replace('a', 'b\\n') | indent(100000) }}",
        '{{ range(99999) | join(x) }}',
        "{{ range(99999) | list | tojson(separators=(x, ':')) }}",
        '{{ [[1]] | tojson(indent=10**8) }}',
        '{% for i in range(999) %}{{ range(9) | map(attribute=x) | list }}{% endfor %}',
      ],
      3,
    ).map(
      (use) =>
        [
          `a text of a million in ${use}`,
          `{% set ns = namespace(s='a') %}{% for i in range(20) %}{% set ns.s = ns.s + ns.s %}{% endfor %}{% set x = ns.s %}${use}`,
          LIMIT,
        ] as const,
    ),
    [
      'many dates',
      "{% set ns = namespace(s='%B') %}{% for i in range(20) %}{% set ns.s = ns.s + ns.s %}{% endfor %}{{ strftime_now(ns.s) }}",
      /a date in a form/,
    ],
    [
      'a long list sorted again and again',
      '{% for i in range(99999) %}{{ range(99999) | sort | length }}{% endfor %}',
      LIMIT,
    ],
    [
      'a long list looped over by nothing',
      '{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}',
      LIMIT,
    ],
    [
      'a large call again and again',
      `{% macro f() %}{% if false %}{{ caller() }}{% endif %}{% endmacro %}{% for i in range(99999) %}{% call f() %}${'{{ 1 }}'.repeat(9999)}{% endcall %}{% endfor %}`,
      /steps/,
    ],
    ['spaces', ' '.repeat(2 ** 17), /without thousands of spaces/],
    [
      'a list as its refusal',
      "{% set ns = namespace(s=['ab']) %}{% for i in range(60) %}{% set ns.s = [ns.s, ns.s] %}{% endfor %}{{ raise_exception(ns.s) }}",
      /"a list or a map"/,
    ],
    ['recursion', '{% macro f(g) %}{{ g(g) }}{% endmacro %}{{ f(f) }}', /call stack|steps/],
    ['deep nesting', `{{ ${'('.repeat(50_000)}1${')'.repeat(50_000)} }}`, /call stack/],
    ['an unknown function', '{{ nothing() }}', /cannot be rendered: .+/],
    ['an unknown filter', "{{ 'a' | nothing }}", /cannot be rendered: .+/],
    ['a missing end', '{% for i in messages %}', /cannot be rendered: .+/],
    ['too long a source', 'x'.repeat(2 ** 18 + 1), /at most 262144 characters, got 262145/],
    ['its own refusal', "{{ raise_exception('no ' + messages[0].role) }}", /rejects the conversation: "no user"/],
  ])('%s', (_, source, message) => {
    const started = performance.now();
    const error = caught(() => chatTemplate(source, 't')([{ role: 'user', content: 'a' }]));
    expect(KvError.is(error)).toBe(true);
    expect((error as KvError).message).toMatch(message);
    expect((error as KvError).message).toMatch(/^t: (?:the chat template (?:rejects|cannot be)|expected) [^\n]+$/);
    expect(performance.now() - started).toBeLessThan(30_000);
  });

  test('whatever it says', () => {
    const pieces = [
      '{{',
      '}}',
      '{%',
      '%}',
      ' for i in messages ',
      ' endfor ',
      ' if ',
      'endif',
      'messages',
      '[0]',
      '.content',
      "'a'",
      '|',
      'tojson',
      '(',
      ')',
      '-',
      '+',
      ' set x = ',
      '1',
      '{#',
      '#}',
      'text',
      '\n',
      '~',
      'is defined',
      'not',
      'loop.first',
    ];
    fc.assert(
      fc.property(fc.array(fc.constantFrom(...pieces), { maxLength: 12 }), (parts) => {
        try {
          expect(typeof chatTemplate(parts.join(''), 't')([{ role: 'user', content: 'a' }])).toBe('string');
        } catch (error) {
          if (!KvError.is(error)) throw error;
          expect(error.message).toMatch(/^t: (?:the chat template (?:rejects|cannot be)|expected) /);
        }
      }),
    );
  });
});

test('a long conversation may take more than a short one', () => {
  const messages = Array.from({ length: 5000 }, (_, i) => ({ role: 'user', content: `${i} ${'word '.repeat(100)}` }));
  const source = '{% for m in messages %}{{ messages[loop.index0 - 1].content ~ m.content | trim }}{% endfor %}';
  expect(chatTemplate(source, 't')(messages).length).toBeGreaterThan(5_000_000);
});

describe('where a checkpoint keeps its template', () => {
  const messages = [{ role: 'user', content: 'x' }];
  const source = '{{ bos_token }}{{ messages[0].content }}{{ eos_token }}';

  test('a file of its own comes before tokenizer_config.json, and that before GGUF; special tokens come from the same place', () => {
    const config = { chat_template: `c${source}`, bos_token: { content: '<s>' }, eos_token: '</s>' };
    const metadata = new Map<string, unknown>([
      ['tokenizer.chat_template', `g${source}`],
      ['tokenizer.ggml.tokens', ['u', 'B', 'E']],
      ['tokenizer.ggml.bos_token_id', 1],
      ['tokenizer.ggml.eos_token_id', 2],
    ]);
    expect(readChatTemplate({ jinja: `j${source}`, config, metadata }, 't')?.(messages)).toBe('j<s>x</s>');
    expect(readChatTemplate({ config, metadata }, 't')?.(messages)).toBe('c<s>x</s>');
    expect(readChatTemplate({ metadata }, 't')?.(messages)).toBe('gBxE');
    expect(readChatTemplate({ metadata }, 't')?.(messages, { eosToken: '!' })).toBe('gBx!');
    expect(readChatTemplate({ config: {} }, 't')).toBe(undefined);
    const processor = { chat_template: `p${source}` };
    expect(readChatTemplate({ config: { ...config, chat_template: null }, processor }, 't')?.(messages)).toBe(
      'p<s>x</s>',
    );
    expect(readChatTemplate({ config, processor }, 't')?.(messages)).toBe('c<s>x</s>');
  });

  test('of a list of templates the default one, else the first; that of functions where some are given', () => {
    const list = [
      { name: 'tool_use', template: 't' },
      { name: 'default', template: 'd' },
    ];
    const metadata = new Map<string, unknown>([
      ['tokenizer.chat_template', 'd'],
      ['tokenizer.chat_template.tool_use', 't'],
    ]);
    for (const sources of [{ config: { chat_template: list } }, { metadata }, { jinja: 'd', toolUse: 't' }]) {
      const template = readChatTemplate(sources, 't')!,
        given = [{}, { tools: [] }, { tools: [{}] }].map((options) => template(messages, options));
      expect(given).toEqual(['d', 'd', 't']);
      expect(template.render(messages, { tools: [{}] }).text).toBe('t');
    }
    expect([...readChatTemplate({ jinja: '{{ a }}{{ tools }}', toolUse: '{{ b }}' }, 't')!.reads!].sort()).toEqual([
      'a',
      'b',
      'tools',
    ]);
    expect(readChatTemplate({ config: { chat_template: list } }, 't')?.(messages)).toBe('d');
    expect(readChatTemplate({ config: { chat_template: list.slice(0, 1) } }, 't')?.(messages)).toBe('t');
    expect(() => readChatTemplate({ config: { chat_template: [{}] } }, 't')).toThrow(
      't: chat_template must be a string or a list of { name, template }, got [{}]',
    );
    expect(() =>
      readChatTemplate({ metadata: new Map([...metadata, ['tokenizer.chat_template.tool_use', 1]]) }, 't'),
    ).toThrow('t: chat_template must be a string or a list of { name, template }, got 1');
    expect(() => readChatTemplate({ config: [] }, 't')).toThrow(
      't: tokenizer_config.json must be a JSON object, got []',
    );
  });
});

test('the date', () => {
  const text = chatTemplate("{{ strftime_now('%d %b %Y') }} {{ strftime_now('%A, %H:%M:%S %B %m %a %q') }}", 't')([]);
  expect(text).toMatch(/^\d\d [A-Z][a-z]{2} \d{4} [A-Z][a-z]+day, \d\d:\d\d:\d\d [A-Z][a-z]+ \d\d [A-Z][a-z]{2} %q$/);
});

function caught(use: () => unknown): unknown {
  try {
    return use();
  } catch (error) {
    return error;
  }
}
