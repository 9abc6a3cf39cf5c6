import { readdirSync } from 'node:fs';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { renderedAfter, renderedIds } from '../src/chat/chat-ids.ts';
import { chatTemplate, type ChatMessage, type RenderedChat } from '../src/chat/chat-template.ts';
import { readGguf } from '../src/format/gguf.ts';
import { fileSource } from '../src/read/source.ts';
import { embeddedFolder } from '../src/load/embedded.ts';
import { openCheckpoint } from '../src/load/load.ts';
import { createTokenizer } from '../src/tokenizer/tokenizer.ts';
import { ggufTokenizer } from '../src/tokenizer/gguf.ts';
import type { Tokenizer } from '../src/tokenizer/interface.ts';
import { fixture, fixtureJson } from '@kv/model-testing/fixture';
import { reference } from '@kv/model-testing/reference';

interface Added {
  readonly id: number;
  readonly content: string;
}
interface Json {
  readonly added_tokens: readonly Added[];
  readonly model: { readonly vocab: Readonly<Record<string, number>> };
}
/** A tokenizer and its added tokens that are not white space. */
type Kind = readonly [tokenizer: Tokenizer, added: ReadonlyMap<number, string>];

const kindOf = (json: Json): Kind => [
  createTokenizer(json, 't'),
  new Map(json.added_tokens.filter(({ content }) => content.trim() !== '').map(({ id, content }) => [id, content])),
];
const fixtures = readdirSync(fixture('tokenizers/')).map(
  (file) => [file, fixtureJson<{ tokenizer: Json }>(`tokenizers/${file}`).tokenizer] as const,
);
/**
 * Makes the turn tokens non-special and matched in normalised text, as some files have them. Not for Llama 2's
 * tokenizer: its normalizer puts a space before each, so that the space before it, even a user's, would be
 * part of the token.
 */
const loosened = (json: Json): Json => ({
  ...json,
  added_tokens: json.added_tokens.map((token) => ({ ...token, special: false, normalized: true })),
});
const smollm = fixtures.find(([file]) => file === 'smollm.json')![1];
/** Gives the model a turn token as a word, with merges that form it. */
const merged = (ignore: boolean): Json =>
  ({
    ...smollm,
    model: {
      ...smollm.model,
      ignore_merges: ignore,
      vocab: { ...smollm.model.vocab, END: 9000, EN: 9001 },
      merges: [
        ['E', 'N'],
        ['EN', 'D'],
      ],
    },
    added_tokens: [...smollm.added_tokens, { id: 9000, content: 'END', special: true }],
  }) as unknown as Json;
const kinds = new Map<string, () => Promise<Kind>>([
  ...fixtures.map(([file, json]) => [file, () => Promise.resolve(kindOf(json))] as const),
  ...fixtures
    .filter(([file]) => file !== 'llama2.json')
    .map(([file, json]) => [`${file}, no special tokens`, () => Promise.resolve(kindOf(loosened(json)))] as const),
  ['a turn token that merges make', () => Promise.resolve(kindOf(merged(false)))],
  ['a turn token that is a word', () => Promise.resolve(kindOf(merged(true)))],
  ['the embedded model', () => embedded()],
]);
for (const type of [3, 4]) kinds.set(`SentencePiece, control tokens of type ${type}`, () => gguf(type));

async function embedded(): Promise<Kind> {
  const { tokenizer, close } = await openCheckpoint(embeddedFolder());
  await close();
  return [tokenizer, new Map([...tokenizer.specials].map(([name, id]) => [id, name]))];
}
async function gguf(type: number): Promise<Kind> {
  const file = await readGguf(await fileSource(reference('data/models/vocabulary-spm.gguf')));
  await file.close();
  const types = [...(file.metadata.get('tokenizer.ggml.token_type') as ArrayLike<number> as number[])];
  types[1] = types[2] = type;
  const tokenizer = ggufTokenizer(new Map([...file.metadata, ['tokenizer.ggml.token_type', types]]), 't');
  return [
    tokenizer,
    new Map([
      [1, '<s>'],
      [2, '</s>'],
    ]),
  ];
}

/** Templates that insert text unchanged, and others that rewrite it; `OPEN` and `CLOSE` are two of the added tokens. */
const TEMPLATES = [
  'OPEN{{ m.role }}\n{{ m.content }}CLOSE\n',
  "{{ 'OPEN' + m.role + '\\n' + m.content | trim + 'CLOSE' }}",
  'OPEN{{ m.content.upper() }}CLOSE{{ m.name | lower }}OPEN',
  "OPEN{{ m.content | replace('q', '') }}CLOSE{{ m.name[::-1][::-1] }}",
  "{% set text = 'OPEN' ~ m.content ~ 'CLOSE' %}{{ text | trim }}{{ text.split('q') | join('') }}",
  'OPEN{{ m | tojson }}CLOSE{{ m.calls | tojson(indent=2) }}OPEN{{ m.calls }}',
  'OPEN{% for part in m.parts %}{{ part.text }}{% endfor %}CLOSE',
  "OPEN{{ '%s %s' | format(m.name, m.content) }}CLOSE{{ '{}'.format(m.content) }}",
  'OPEN{% filter indent(2) %}{{ m.content }}CLOSE{% endfilter %}{% for c in m.content %}{{ c }}{% endfor %}OPEN',
  '{% macro turn(text) %}OPEN{{ text }}CLOSE{% endmacro %}{{ turn(m.name) }}{% set x %}{{ m.content }}{% endset %}{{ turn(x) }}',
  'OPEN{{ m.content[1:] }}{{ m.content[:1] }}CLOSE{{ m.calls.values() | list | first }}',
].map((body) => `{% for m in messages %}${body}{% endfor %}`);

const HARMLESS = ['hello', ' world', ' ', '\n', 'é', '文', '7', 'q', '"', '.'];

function message(texts: readonly string[]): ChatMessage {
  const [content = '', name = '', one = '', two = '', key = ''] = texts;
  return { role: 'user', content, name, parts: [{ text: one }, { text: two }], calls: { [`k${key}`]: two } };
}
const texts = (units: readonly string[]): fc.Arbitrary<string[]> =>
  fc.array(fc.string({ unit: fc.constantFrom(...units), maxLength: 6 }), { minLength: 5, maxLength: 5 });

/** Returns the added tokens in the ids that are not a word of the template. */
const controls = (ids: readonly number[], added: ReadonlyMap<number, string>): readonly number[] =>
  ids.filter((id) => added.has(id) && added.get(id) !== '<unk>');

describe.each([...kinds])('%s', (_, make) => {
  test('no text of a conversation becomes an added token, and harmless text has the ids of the whole', async () => {
    const [tokenizer, added] = await make();
    const contents = [...added.values()].filter((content) => content !== '<unk>');
    const turn = contents.filter((content) => /^<.*>$/.test(content) && !/left|right/.test(content));
    const [open = '', close = ''] = turn.slice(-2);
    const hostile = [
      ...contents,
      ...contents.flatMap((content) => [content.slice(0, -1), content.slice(1), content.slice(0, 3)]),
      ...contents.map((content) => content.replace('<', '\uff1c').replace('>', '\uff1e')),
      ...contents.map((content) => content.toUpperCase()),
      ...contents.map((content) => [...content].reverse().join('')),
    ];
    const templates = TEMPLATES.map((source) =>
      chatTemplate(source.replaceAll('OPEN', open).replaceAll('CLOSE', close), 't'),
    );
    fc.assert(
      fc.property(
        fc.constantFrom(...templates),
        fc.array(fc.tuple(texts([...HARMLESS, ...hostile]), texts(HARMLESS)), { minLength: 1, maxLength: 3 }),
        (template, pairs) => {
          const harmless = template.render(pairs.map(([, plain]) => message(plain)));
          const ids = renderedIds(tokenizer, harmless);
          expect(ids).toEqual(tokenizer.encode(harmless.text, { special: false }).ids);
          const attack = renderedIds(tokenizer, template.render(pairs.map(([given]) => message(given))));
          expect(controls(attack, added)).toEqual(controls(ids, added));
        },
      ),
    );
  });
});

test('every text of a conversation is marked, whatever a template does to it, and nothing else', () => {
  const render = (source: string): RenderedChat =>
    chatTemplate(source, 't').render([{ role: 'user', content: 'Ab c', name: 'N', calls: { key: ['v'] } }]);
  const marked = (source: string): string => {
    const { text, untrusted } = render(source);
    let [shown, at] = ['', 0];
    for (const [from, to] of untrusted) {
      shown += `${text.slice(at, from)}[${text.slice(from, to)}]`;
      at = to;
    }
    return shown + text.slice(at);
  };
  expect(marked('x{{ messages[0].content | upper }}y{{ messages[0].role }}')).toBe('x[AB C]yuser');
  expect(marked("{{ ('<' ~ messages[0].content ~ '>').split(' ') | join('+') }}")).toBe('<[Ab]+[c]>');
  expect(marked('{{ messages[0].calls | tojson }}{{ messages[0].calls }}')).toBe(
    '{"[key]": ["[v]"]}{\'[key]\': [\'[v]\']}',
  );
  expect(marked("{{ 'a-b'.replace('-', messages[0].name) }}{{ messages[0].name * 2 }}")).toBe('a[N]b[NN]');
  expect(marked("{{ messages[0].content | replace('b', '<>') | title }}")).toBe('[A]<>[ C]');
  expect(
    renderedAfter(
      {
        text: 'abcabd',
        untrusted: [
          [1, 2],
          [4, 6],
        ],
      },
      'ab',
    ),
  ).toEqual({ text: 'd', untrusted: [[0, 1]] });
});

test('a role that the protocol does not know is text', () => {
  const template = chatTemplate("{{ '<|' + messages[0].role + '|>' }}", 't');
  expect(template.render([{ role: 'assistant', content: '' }]).untrusted).toEqual([]);
  expect(template.render([{ role: 'im_end', content: '' }]).untrusted).toEqual([[2, 8]]);
});

test.each([
  [[[2, 1]]],
  [[[0, 9]]],
  [
    [
      [0, 2],
      [1, 3],
    ],
  ],
  [[[0.5, 1]]],
])('ranges %j of a text of three are refused', (ranges) => {
  const [tokenizer] = kindOf(smollm);
  expect(() => tokenizer.encode('abc', { untrusted: ranges as [number, number][] })).toThrow(
    /^t: untrusted must be ranges/,
  );
});
