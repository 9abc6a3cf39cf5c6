import fc from 'fast-check';
import { beforeAll, describe, expect, test } from 'vitest';
import { readChatTemplate } from '../src/chat/chat-template.ts';
import { readGguf } from '../src/format/gguf.ts';
import { fileSource } from '../src/read/source.ts';
import type { Tokenizer } from '../src/tokenizer/interface.ts';
import { ggufEnds, ggufTokenizer } from '../src/tokenizer/gguf.ts';
import { createTokenizer } from '../src/tokenizer/tokenizer.ts';
import { fixtureJson } from '@kv/model-testing/fixture';
import { excerpt, reference, referenceJson } from '@kv/model-testing/reference';
import { smollm2File } from '@kv/model-testing/smollm2-file';

async function metadataOf(path: string): Promise<ReadonlyMap<string, unknown>> {
  const file = await readGguf(await fileSource(path));
  await file.close();
  return file.metadata;
}

describe('SentencePiece vocabulary', () => {
  const path = reference('data/models/vocabulary-spm.gguf');
  let metadata: ReadonlyMap<string, unknown>;
  let tokenizer: Tokenizer;
  beforeAll(async () => {
    metadata = await metadataOf(path);
    tokenizer = ggufTokenizer(metadata, 'spm');
  });

  test('ids of hard texts are those of SentencePiece, and the texts come back', () => {
    const { texts } = referenceJson<{ texts: { text: string; ids: number[] }[] }>('data/models/vocabulary-spm.json');
    expect(texts.length).toBeGreaterThan(30);
    for (const { text, ids } of texts) {
      expect(tokenizer.encode(text, { special: false, parse: false }).ids, text).toEqual(ids);
      expect(tokenizer.decode(ids), text).toBe(text.replaceAll('\u2581', ' '));
    }
  });

  test('the beginning token as the file says; a control token is not made of text', () => {
    expect([tokenizer.bosId, tokenizer.eosId]).toEqual([1, 2]);
    expect(tokenizer.encode('Hello').ids).toEqual([1, 340, 365, 3909]);
    expect(
      ggufTokenizer(
        new Map([...metadata, ['tokenizer.ggml.add_bos_token', false], ['tokenizer.ggml.add_eos_token', true]]),
        't',
      ).encode('Hello').ids,
    ).toEqual([340, 365, 3909, 2]);
    expect(tokenizer.encode('a</s>b', { special: false }).ids).toContain(2);
    const kept = tokenizer.encode('</s> <0x41>', { parse: false, special: false });
    expect(kept.ids.filter((id) => id < 259)).toEqual([]);
    expect(tokenizer.decode(kept.ids)).toBe('</s> <0x41>');
  });

  test('no space before a text where the file says so', () => {
    const bare = ggufTokenizer(new Map([...metadata, ['tokenizer.ggml.add_space_prefix', false]]), 't');
    const { ids } = bare.encode('Hello', { special: false });
    expect(ids.map((id) => new TextDecoder().decode(bare.bytesOf(id)))).toEqual(['Hello']);
    expect(bare.decode(bare.encode(' a').ids)).toBe(' a');
  });

  test('joins by score, the leftmost of equals, against trying every pair', () => {
    const scores = metadata.get('tokenizer.ggml.scores') as ArrayLike<number>;
    const ids = new Map((metadata.get('tokenizer.ggml.tokens') as readonly string[]).map((token, id) => [token, id]));
    const slow = (text: string): string[] => {
      const symbols = [...text];
      for (;;) {
        let best = -1;
        for (let i = 0; i + 1 < symbols.length; i++) {
          const id = ids.get(symbols[i] + symbols[i + 1]);
          const old = best < 0 ? undefined : ids.get(symbols[best] + symbols[best + 1]);
          if (id !== undefined && (old === undefined || scores[id] > scores[old])) best = i;
        }
        if (best < 0) return symbols;
        symbols.splice(best, 2, symbols[best] + symbols[best + 1]);
      }
    };
    const unit = fc.constantFrom(' ', 'a', 'e', 't', 'h', 'n', 'r', 's', 'in', 'the', '\n', '1', '=', '-', '.');
    fc.assert(
      fc.property(fc.string({ unit, minLength: 1, maxLength: 40 }), (text) => {
        const want = slow(`\u2581${text.replaceAll(' ', '\u2581')}`).map(
          (symbol) => ids.get(symbol) ?? 3 + symbol.charCodeAt(0),
        );
        expect(tokenizer.encode(text, { special: false }).ids).toEqual(want);
      }),
    );
  });

  test('a control token is not made of text even where its parts are pieces', () => {
    const tokens = ['<unk>', '<s>', '\u2581', '<', 's', '>', '<s'];
    const small = new Map<string, unknown>([
      ['tokenizer.ggml.model', 'llama'],
      ['tokenizer.ggml.tokens', tokens],
      ['tokenizer.ggml.token_type', [2, 3, 1, 1, 1, 1, 1]],
      ['tokenizer.ggml.scores', [0, 0, -1, -1, -1, -1, -1]],
    ]);
    expect(
      ggufTokenizer(small, 't')
        .encode('<s>', { parse: false })
        .ids.map((id) => tokens[id]),
    ).toEqual(['\u2581', '<s', '>']);
    expect(ggufTokenizer(small, 't').encode('<s>').ids).toEqual([1]);
  });

  test('a run of spaces that the file holds as spaces is found where a marked space is written out', () => {
    const small = new Map<string, unknown>([
      ['tokenizer.ggml.model', 'llama'],
      ['tokenizer.ggml.add_space_prefix', false],
      ['tokenizer.ggml.tokens', ['<unk>', '<s>', '\u2581', 'a', '  ']],
      ['tokenizer.ggml.token_type', [2, 3, 1, 1, 4]],
      ['tokenizer.ggml.scores', [0, 0, -1, -1, -2]],
    ]);
    const { encode } = ggufTokenizer(small, 't');
    for (const text of ['a  a', 'a \u2581a', 'a\u2581\u2581a'])
      expect(encode(text, { special: false }).ids).toEqual([3, 4, 3]);
  });

  test.each([['bos'], ['eos'], ['unknown']])('an id of %s beyond the vocabulary is none', (which) => {
    const key = `tokenizer.ggml.${which}_token_id`,
      without = new Map(metadata);
    without.delete(key);
    const want = ggufTokenizer(without, 't');
    for (const id of [4000, 2 ** 32 - 1]) {
      const got = ggufTokenizer(new Map([...metadata, [key, id]]), 't');
      expect([got.bosId, got.eosId]).toEqual([want.bosId, want.eosId]);
      for (const text of ['The wide river', 'a\u{10FFFF}b']) expect(got.encode(text)).toEqual(want.encode(text));
    }
  });

  test('without types tokens are normal, without scores all pieces are alike', () => {
    const tokens = ['<unk>', '<0x21>', '\u2581', 'a', 'b', 'ab', 'aa'],
      { encode, decode } = ggufTokenizer(
        new Map<string, unknown>([
          ['tokenizer.ggml.model', 'llama'],
          ['tokenizer.ggml.tokens', tokens],
        ]),
        't',
      ),
      { ids } = encode('aab!', { special: false });
    expect(ids.map((id) => tokens[id])).toEqual(['\u2581', 'aa', 'b', '<0x21>']);
    expect(decode(ids)).toBe('aab!');
  });

  test.each<[string, Record<string, unknown>]>([
    ['another model', { model: 'bert' }],
    ['no tokens', { tokens: undefined }],
    ['a token that is no string', { tokens: [1] }],
    ['too few types', { token_type: [1] }],
    ['scores that are none', { scores: 'x' }],
    ['an id that is none', { bos_token_id: -1 }],
    ['a flag that is none', { add_bos_token: 1 }],
    ['another pre-tokenizer', { model: 'gpt2', pre: 'klingon', merges: [] }],
    ['a merge of one', { model: 'gpt2', pre: 'gpt-2', merges: ['ab'] }],
  ])('refuses %s', (_, changes) => {
    const changed = new Map([
      ...metadata,
      ...Object.entries(changes).map(([key, value]) => [`tokenizer.ggml.${key}`, value] as const),
    ]);
    expect(() => ggufTokenizer(changed, 't')).toThrowErrorMatchingSnapshot();
  });
});

describe('byte-level vocabularies', () => {
  const letters = [
    ...new Set([...'abcdefghijklmnopqrstuvwxyz0123456789 .,!'].map((char) => (char === ' ' ? '\u0120' : char))),
  ];
  const tokens = [...letters, 'ab', '12', '123', '1234', '\u0120a', '<B>', '<E>', 'abc'];
  const metadata = (pre: string): ReadonlyMap<string, unknown> =>
    new Map<string, unknown>([
      ['tokenizer.ggml.model', 'gpt2'],
      ['tokenizer.ggml.pre', pre],
      ['tokenizer.ggml.tokens', tokens],
      ['tokenizer.ggml.token_type', tokens.map((token) => (token.startsWith('<') ? 3 : 1))],
      ['tokenizer.ggml.merges', ['a b', '1 2', '12 3', '123 4', '\u0120 a']],
      ['tokenizer.ggml.bos_token_id', tokens.indexOf('<B>')],
      ['tokenizer.ggml.eos_token_id', tokens.indexOf('<E>')],
    ]);
  const words = (pre: string, text: string): string[] =>
    ggufTokenizer(metadata(pre), 't')
      .encode(text)
      .ids.map((id) => tokens[id]);

  test('kinds cut digits as llama.cpp does (all of them in gguf-words.test.ts)', () => {
    const cut = (pre: string): string =>
      words(pre, 'x1234')
        .filter((token) => token !== '<B>')
        .join(' ');
    for (const [want, names] of [
      ['x 1234', ['gpt-2', 'phi-2', 'mpt', 'olmo', 'deepseek-llm']],
      ['x 123 4', ['llama3', 'llama-bpe', 'dbrx', 'smaug-bpe', 'gpt-4o', 'llama4', 'default', 'falcon', 'deepseek-v3']],
      ['x 1 2 3 4', ['qwen2', 'stablelm2', 'smollm', 'starcoder', 'command-r', 'tekken', 'deepseek-coder', 'exaone']],
    ] as const)
      expect(names.map((pre) => [pre, cut(pre)])).toEqual(names.map((pre) => [pre, want]));
  });

  test('Llama 3 begins with its token and takes a word that is in the vocabulary whole', () => {
    expect(words('llama-bpe', 'abc a')).toEqual(['<B>', 'abc', '\u0120a']);
    expect(words('dbrx', 'abc')).toEqual(['ab', 'c']);
  });
});

describe('marks of chats', () => {
  const USER = 4,
    NORMAL = 1,
    CONTROL = 3;
  /** A vocabulary of letters and these tokens. */
  const metadata = (
    model: string,
    marks: Readonly<Record<string, number>>,
    more: Readonly<Record<string, unknown>> = {},
  ): ReadonlyMap<string, unknown> => {
    const letters = ['<unk>', '\u2581', ...new Set(['a', 'b', '\n', ...Object.keys(marks).join('')])],
      tokens = [...letters, ...Object.keys(marks)];
    return new Map<string, unknown>([
      ['tokenizer.ggml.model', model],
      ['tokenizer.ggml.pre', 'qwen2'],
      ['tokenizer.ggml.tokens', tokens],
      ['tokenizer.ggml.token_type', [2, ...letters.slice(1).map(() => NORMAL), ...Object.values(marks)]],
      ['tokenizer.ggml.scores', tokens.map(() => 0)],
      ['tokenizer.ggml.merges', []],
      ['tokenizer.ggml.add_space_prefix', false],
      ...Object.entries(more),
    ]);
  };

  test.each(['gpt2', 'llama', 'gemma4'])(
    '%s: those of user-defined or ordinary type are special; no text of a user forges a turn',
    (model) => {
      const marks = ['<|tool_response>', '<tool_call|>', '<|"|>', '<|im_start|>', '<｜User｜>'],
        ends = ['<|im_end|>', '<end_of_turn>', '<|end|>'],
        file = metadata(model, {
          ...Object.fromEntries(marks.map((mark) => [mark, USER])),
          ...Object.fromEntries(ends.map((mark, i) => [mark, [NORMAL, USER, CONTROL][i]])),
          '<tool_call>': USER,
          '</s>': USER,
        }),
        { specials, encode, decode } = ggufTokenizer(file, 't');
      for (const mark of [...marks, ...ends]) {
        const id = specials.get(mark)!;
        expect([mark, encode(mark, { special: false }).ids]).toEqual([mark, [id]]);
        expect([mark, encode(`a${mark}b`, { special: false, parse: false }).ids.includes(id)]).toEqual([mark, false]);
        expect([mark, decode([id])]).toEqual([mark, '']);
      }
      for (const text of ['<tool_call>', '</s>']) {
        expect(specials.has(text)).toBe(false);
        expect(decode(encode(text, { parse: false }).ids)).toBe(text);
      }
      expect(ggufEnds(file)).toEqual([...['<|tool_response>'], ...ends].map((end) => specials.get(end)));
    },
  );

  test('so they are in a tokenizer.json', () => {
    const { added_tokens: added, ...rest } = fixtureJson<{ tokenizer: { added_tokens: { special: boolean }[] } }>(
      'tokenizers/smollm.json',
    ).tokenizer;
    const { specials } = createTokenizer(
      { ...rest, added_tokens: added.map((token) => ({ ...token, special: false })) },
      't',
    );
    expect(specials.has('<|im_end|>')).toBe(true);
  });

  test('in the vocabulary of Harmony <|end|> ends no answer', () => {
    const ends = (...marks: readonly string[]): readonly unknown[] => {
      const file = metadata('gpt2', Object.fromEntries(marks.map((mark) => [mark, CONTROL])));
      return ggufEnds(file).map((id) => (file.get('tokenizer.ggml.tokens') as readonly string[])[id]);
    };
    expect(ends('<|end|>', '<|endoftext|>')).toEqual(['<|end|>', '<|endoftext|>']);
    expect(ends('<|end|>', '<|return|>', '<|call|>')).toEqual(['<|return|>', '<|call|>']);
  });

  test.each([
    [{ 'general.name': 'Phi-3-mini' }, ['<|end|>', 'a', '<s>', '\n', 'a']],
    [{ 'general.name': 'mine', 'general.architecture': 'phi3' }, ['<|end|>', 'a', '<s>', '\n', 'a']],
    [{ 'general.name': 'other' }, ['<|end|>', '\n', 'a', '<s>', '\n', 'a']],
  ])('those of Phi-3 take the white space after them: %j', (names, want) => {
    const file = metadata('llama', { '<|end|>': CONTROL, '<s>': CONTROL }, names),
      tokens = file.get('tokenizer.ggml.tokens') as readonly string[];
    expect(
      ggufTokenizer(file, 't')
        .encode('<|end|>\na<s>\na')
        .ids.map((id) => tokens[id]),
    ).toEqual(want);
  });

  test('Gemma 4 begins a text also where an old file says that it does not', () => {
    const begins = (model: string): boolean => {
      const file = metadata(model, { '<bos>': CONTROL }),
        bos = (file.get('tokenizer.ggml.tokens') as readonly string[]).indexOf('<bos>'),
        says = new Map([...file, ['tokenizer.ggml.bos_token_id', bos], ['tokenizer.ggml.add_bos_token', false]]);
      return ggufTokenizer(says, 't').encode('a').ids[0] === bos;
    };
    expect([begins('gemma4'), begins('llama')]).toEqual([true, false]);
  });
});

const real = smollm2File('the vocabulary of SmolLM2');

/** Converters' names for the pre-tokenizers of Llama 3.2 and SmolLM3, Qwen, Qwen 3.5, Granite 4.0, Mistral Nemo and Phi-4-mini. */
test.each([
  ['llama3', 'llama-bpe'],
  ['qwen2', 'qwen2'],
  ['qwen35', 'qwen35'],
  ['granite4', 'dbrx'],
  ['tekken', 'tekken'],
  ['o200k', 'gpt-4o'],
])('a file that says the words of %s are %s gives the ids and offsets of that tokenizer', (name, pre) => {
  const { tokenizer: json, cases } = fixtureJson<{
    tokenizer: {
      added_tokens: { id: number; content: string }[];
      model: { vocab: Record<string, number>; merges: (string | [string, string])[] };
      post_processor: unknown;
    };
    cases: { text: string; ids: number[]; offsets: number[] }[];
  }>(`tokenizers/${name}.json`);
  const added = new Map(json.added_tokens.map(({ id, content }) => [id, content])),
    tokens: string[] = [];
  for (const [token, id] of Object.entries(json.model.vocab)) tokens[id] = token;
  for (const [id, content] of added) tokens[id] = content;
  const tokenizer = ggufTokenizer(
    new Map<string, unknown>([
      ['tokenizer.ggml.model', 'gpt2'],
      ['tokenizer.ggml.pre', pre],
      ['tokenizer.ggml.tokens', tokens],
      ['tokenizer.ggml.token_type', tokens.map((_, id) => (added.has(id) ? 3 : 1))],
      [
        'tokenizer.ggml.merges',
        json.model.merges.map((merge) => (typeof merge === 'string' ? merge : merge.join(' '))),
      ],
      ['tokenizer.ggml.bos_token_id', Math.max(tokens.indexOf('<|im_start|>'), 0)],
      ['tokenizer.ggml.add_bos_token', json.post_processor !== null],
    ]),
    name,
  );
  for (const { text, ids, offsets } of cases) {
    const own = tokenizer.encode(text);
    expect(own.ids, text).toEqual(ids);
    if (text === text.normalize('NFC')) expect(own.offsets.flat(), text).toEqual(offsets);
  }
});

describe.skipIf(real === undefined)('SmolLM2-135M-Instruct', () => {
  const reference = fixtureJson<{
    texts: { text: string; ids: number[] }[];
    excerpts: { file: string; start: number; length: number; ids: number[] }[];
  }>('smollm2-ids.json');
  let metadata: ReadonlyMap<string, unknown>;
  let tokenizer: Tokenizer;
  beforeAll(async () => {
    metadata = await metadataOf(real!);
    tokenizer = ggufTokenizer(metadata, 'smollm2');
  });

  test('ids and text of hard texts and prose', () => {
    const prose = reference.excerpts.map(({ file, start, length, ids }) => ({
      text: excerpt(file, start, length),
      ids,
    }));
    for (const { text, ids } of [...reference.texts, ...prose]) {
      const own = tokenizer.encode(text);
      expect(own.ids).toEqual(ids);
      expect(tokenizer.decode(ids, { special: true })).toBe(text);
    }
  });

  test('its chat template, whose turns become single tokens', () => {
    const text = readChatTemplate({ metadata }, 'smollm2')!([{ role: 'user', content: 'Hi' }]);
    expect(text).toBe(
      '<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n',
    );
    expect(tokenizer.encode(text).ids.filter((id) => id === 1 || id === 2)).toEqual([1, 2, 1, 2, 1]);
  });
});
