import { describe, expect, test } from 'vitest';
import { createTokenizer } from '../../src/tokenizer/tokenizer.ts';
import { ggufTokenizer } from '../../src/tokenizer/gguf.ts';
import { fixtureJson } from '@kv/model-testing/fixture';

/** A valid tokenizer, so that only what a test changes is wrong. */
const { tokenizer: sound } = fixtureJson<{ tokenizer: Record<string, unknown> }>('tokenizers/smollm.json');
const vocab = (sound.model as { readonly vocab: object }).vocab;
const tokenizer = (change: object): ReturnType<typeof createTokenizer> => createTokenizer({ ...sound, ...change }, 't');
const split = (regex: string): object => ({
  pre_tokenizer: {
    type: 'Sequence',
    pretokenizers: [
      { type: 'Split', pattern: { Regex: regex }, behavior: 'Isolated', invert: false },
      { type: 'ByteLevel', use_regex: false, add_prefix_space: false },
    ],
  },
});
const replaces = (content: string, times: number): object => ({
  normalizer: {
    type: 'Sequence',
    normalizers: Array.from({ length: times }, () => ({ type: 'Replace', pattern: { String: 'a' }, content })),
  },
});
const added = (content: string, more: object = {}): object => ({
  added_tokens: [{ id: 300, content, special: false, normalized: false, lstrip: false, rstrip: false, ...more }],
});

describe('a tokenizer.json whose work is out of proportion', () => {
  test('nested quantifiers end', () => {
    const text = 'a'.repeat(20_000);
    const { ids } = tokenizer(split('(?:\\p{L}+)+!|(?:(?:a|aa)+b)+')).encode(text, { special: false });
    expect(tokenizer({}).decode(ids)).toBe(text);
  });

  test.each<[string, object, string]>([
    ['looks ahead to the end from everywhere', split('(?=[\\s\\S]*!)a|a'), 'takes at most'],
    ['doubles 40 times', replaces('aa', 40), 'makes at most'],
    ['puts 5 MB before a text', { normalizer: { type: 'Prepend', prepend: 'x'.repeat(5e6) } }, 'makes at most'],
    ['replaces a letter by 5 MB', replaces('x'.repeat(5e6), 1), 'makes at most'],
  ])('%s', (_, change, message) => {
    expect(() => tokenizer(change).encode('a'.repeat(20_000))).toThrow(
      new RegExp(`^t: expected a \\w+ that ${message} .*, got`),
    );
  });

  test.each<[string, object, RegExp]>([
    [
      'an id of 2^24 - 1',
      { model: { ...(sound.model as object), vocab: { ...vocab, zzz: 2 ** 24 - 1 } } },
      /below 4194304/,
    ],
    ['an added id of 2^24 - 1', added('x', { id: 2 ** 24 - 1 }), /below 4194304/],
    [
      'a token of 5 MB',
      { model: { ...(sound.model as object), vocab: { ...vocab, ['z'.repeat(5e6)]: 9 } } },
      /tokens of at most 4096 characters, got .* of 5000000$/,
    ],
    ['an added token of 5 MB', added('z'.repeat(5e6)), /tokens of at most 512 characters/],
    [
      'added tokens of 5 MB together',
      { added_tokens: Array.from({ length: 10_000 }, (_, i) => ({ id: i, content: `${i}${'z'.repeat(500)}` })) },
      /of at most 2097152 characters together/,
    ],
    ['10,000 normalizers', replaces('b', 10_000), /at most 64 normalizers, got 10000/],
    [
      '10,000 pre-tokenizers',
      { pre_tokenizer: { type: 'Sequence', pretokenizers: Array.from({ length: 1e4 }, () => ({ type: 'Digits' })) } },
      /at most 64 pretokenizers, got 10000/,
    ],
    [
      'a million tokens before a text',
      {
        post_processor: {
          type: 'TemplateProcessing',
          single: [{ SpecialToken: { id: 'x' } }],
          special_tokens: { x: { id: 'x', ids: new Array(1e6).fill(1) } },
        },
      },
      /at most 64 tokens around a text, got 1000000/,
    ],
  ])('%s', (_, change, message) => {
    const refused = (): unknown => tokenizer(change);
    expect(refused).toThrow(message);
    expect(refused).toThrow(/^t: [^\n]{1,900}$/);
  });

  test('white space before an added token that takes it, and at the end of a text that is stripped', () => {
    const text = `${' '.repeat(50_000)}x`.repeat(4);
    const taking = tokenizer(added('<x>', { lstrip: true, rstrip: true }));
    expect(taking.encode(`${text}  <x>  ${text}`, { special: false }).ids).toContain(300);
    const stripped = tokenizer({ normalizer: { type: 'Strip', strip_left: true, strip_right: true } });
    const { ids } = stripped.encode(`  ${text}  `, { special: false });
    expect(stripped.decode(ids)).toBe(text.trim());
  });

  test('marks without end, which a normal form takes together', () => {
    const made = tokenizer({ normalizer: { type: 'NFKC' } });
    for (const unit of ['\u0301', '\uFF9E', '\uFF76\uFF9E', '\u1112\u1161\u11ab']) {
      const text = unit.repeat(50_000);
      expect(made.encode(text, { special: false }).offsets.at(-1)?.[1]).toBe(text.length);
    }
  });

  test('a vocabulary whose tokens stand for other text than they are found in', () => {
    const names = Array.from({ length: 94 }, (_, i) => String.fromCharCode(33 + i));
    const pairs = names.flatMap((a) => names.map((b) => a + b));
    // Every name shares its id with a longer one, so that no token's text is found at its position.
    const ids = Object.fromEntries([
      ...names.map((name, i) => [name, i]),
      ...pairs.map((name, i) => [name, 100 + i]),
      ...pairs.map((name, i) => [`${name}~~~`, 100 + i]),
    ]);
    const merges = pairs.map((name) => [name[0], name[1]]);
    const made = tokenizer({ ...split('..'), added_tokens: [], model: { type: 'BPE', vocab: ids, merges } });
    const text = pairs.join('').repeat(2);
    const { offsets } = made.encode(text, { special: false });
    expect(offsets.every(([start, end]) => start <= end)).toBe(true);
  });
});

test('a GGUF token of 5 MB', () => {
  const metadata = new Map<string, unknown>([
    ['tokenizer.ggml.model', 'llama'],
    ['tokenizer.ggml.tokens', ['<unk>', 'z'.repeat(5e6)]],
    ['tokenizer.ggml.scores', [0, 0]],
    ['tokenizer.ggml.token_type', [2, 1]],
  ]);
  expect(() => ggufTokenizer(metadata, 'm.gguf')).toThrow(/^m\.gguf: expected tokens of at most 4096 characters/);
});
