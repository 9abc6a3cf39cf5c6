import { KvError } from '@kv/core';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { createTokenizer } from '../src/tokenizer/tokenizer.ts';
import type { Tokenizer } from '../src/tokenizer/interface.ts';
import { excerpt, referenceJson } from '@kv/model-testing/reference';

const names = ['data/goldens/llama/tokenizer.json', 'data/models/retriever-1.3m/tokenizer.json'];
const load = (path: string): Tokenizer => createTokenizer(referenceJson(path), path);

/**
 * Letters of one to four bytes, joined and combining characters, spaces, digits, and text that
 * only resembles special tokens.
 */
const texts = fc.string({
  unit: fc.oneof(
    fc.constantFrom(
      'a',
      'The',
      ' ',
      '\n',
      'é',
      'ß',
      '文',
      '𝄞',
      '👩‍👩‍👧',
      'e\u0301',
      '\uFEFF',
      '\u00A0',
      '7',
      'Q',
      '<s',
      '|>',
      '-',
      '\u0000',
    ),
    fc.string({ unit: 'grapheme', maxLength: 2 }),
  ),
  maxLength: 30,
});

/**
 * Returns the UTF-16 start and end of the character that contains each UTF-8 byte of a well-formed text, by decoding
 * prefixes of growing length.
 */
function bytesOf(text: string): [number, number][] {
  let at = 0;
  return [...text].flatMap((char) => {
    const [start, end] = [at, (at += char.length)];
    return Array.from(new TextEncoder().encode(char), (): [number, number] => [start, end]);
  });
}

describe.each(names)('%s', (name) => {
  const tokenizer = load(name);

  test('text comes back, whole and streamed without half a character', () => {
    fc.assert(
      fc.property(texts, (text) => {
        const { ids } = tokenizer.encode(text);
        expect(tokenizer.decode(ids)).toBe(text);
        const stream = tokenizer.streamDecoder();
        let streamed = '';
        for (const id of ids) {
          streamed += stream.push(id);
          expect(text.startsWith(streamed)).toBe(true);
          expect(/\p{Surrogate}/u.test(streamed)).toBe(false);
        }
        expect(streamed + stream.end()).toBe(text);
      }),
    );
  });

  test('offsets: token bytes in order, each over the whole characters that hold them', () => {
    fc.assert(
      fc.property(texts, (text) => {
        const { ids, offsets } = tokenizer.encode(text, { special: false });
        const bytes = bytesOf(text);
        const single = ids.map((id) => tokenizer.bytesOf(id).length);
        expect(single.reduce((a, b) => a + b, 0)).toBe(bytes.length);
        let at = 0;
        offsets.forEach(([start, end], i) => {
          expect([start, end]).toEqual([bytes[at][0], bytes[at + single[i] - 1][1]]);
          at += single[i];
        });
      }),
      { numRuns: 300 },
    );
  });

  test('offsets cut the text where the tokens do, in a book', () => {
    const text = excerpt('alice29.txt', 0, 20_000);
    const { ids, offsets } = tokenizer.encode(text);
    offsets.forEach(([start, end], i) => expect(text.slice(start, end)).toBe(tokenizer.decode([ids[i]])));
  });

  test('a lone surrogate is U+FFFD, an unfinished character too', () => {
    const { ids, offsets } = tokenizer.encode('a\uD834b', { special: false });
    expect(tokenizer.decode(ids)).toBe('a\uFFFDb');
    expect([offsets[0], offsets.at(-1)]).toEqual([
      [0, 1],
      [2, 3],
    ]);
    expect(tokenizer.decode(tokenizer.encode('文', { special: false }).ids.slice(0, 1))).toMatch(/^(文|\uFFFD)$/);
  });

  test('an id outside the vocabulary is one sentence', () => {
    expect(() => tokenizer.decode([tokenizer.size])).toThrow(/a token id must be an integer from 0 to \d+, got \d+/);
    expect(tokenizer.decode([])).toBe('');
  });
});

describe('special tokens', () => {
  test('come from the post-processor, with empty offsets, or from the text; decoding leaves them out unless asked', () => {
    const tokenizer = load('data/models/retriever-1.3m/tokenizer.json');
    const own = tokenizer.encode('Alice', { special: false });
    const all = tokenizer.encode('Alice');
    expect(all.ids).toEqual([0, ...own.ids]);
    expect(all.offsets).toEqual([[0, 0], ...own.offsets]);
    expect(tokenizer.encode('').ids).toEqual([0]);
    const written = tokenizer.encode('a</s>b', { special: false });
    expect(written.ids[1]).toBe(1);
    expect(written.offsets).toEqual([
      [0, 1],
      [1, 5],
      [5, 6],
    ]);
    expect([tokenizer.decode(all.ids), tokenizer.decode(all.ids, { special: true })]).toEqual(['Alice', '<s>Alice']);
  });

  test('are written out by name, and by a copy of a decoder that leaves them out', () => {
    const tokenizer = load('data/models/retriever-1.3m/tokenizer.json'),
      { ids } = tokenizer.encode('<s>a</s>b', { special: false });
    expect(tokenizer.decode(ids, { special: ['</s>', 'none'] })).toBe('a</s>b');
    expect(tokenizer.decode(ids, { special: [] })).toBe('ab');
    const plain = tokenizer.streamDecoder(),
      said = (decoder: typeof plain): string => ids.map((id) => decoder.push(id)).join('') + decoder.end();
    expect([
      said(plain.fork({ special: ['<s>'] })),
      said(plain.fork({ special: ['<s>'] }).fork()),
      said(plain),
    ]).toEqual(['<s>ab', '<s>ab', 'ab']);
  });

  test('are not added where the post-processor adds none, whatever the configuration says', () => {
    expect(load('data/goldens/llama/tokenizer.json').encode('Tom').ids).not.toContain(0);
  });
});

describe('SentencePiece', () => {
  const vocab = [
    '<unk>',
    '<s>',
    '</s>',
    ...Array.from({ length: 256 }, (_, i) => `<0x${i.toString(16).toUpperCase().padStart(2, '0')}>`),
    '▁',
    'a',
    'b',
    'ab',
    '▁ab',
    '▁a',
  ];
  const json = {
    added_tokens: ['<unk>', '<s>', '</s>'].map((content, id) => ({
      id,
      content,
      special: true,
      normalized: false,
      lstrip: false,
      rstrip: false,
      single_word: false,
    })),
    normalizer: {
      type: 'Sequence',
      normalizers: [
        { type: 'Prepend', prepend: '▁' },
        { type: 'Replace', pattern: { String: ' ' }, content: '▁' },
      ],
    },
    pre_tokenizer: null,
    post_processor: {
      type: 'TemplateProcessing',
      single: [{ SpecialToken: { id: '<s>', type_id: 0 } }, { Sequence: { id: 'A', type_id: 0 } }],
      pair: [],
      special_tokens: { '<s>': { id: '<s>', ids: [1], tokens: ['<s>'] } },
    },
    decoder: {
      type: 'Sequence',
      decoders: [
        { type: 'Replace', pattern: { String: '▁' }, content: ' ' },
        { type: 'ByteFallback' },
        { type: 'Fuse' },
        { type: 'Strip', content: ' ', start: 1, stop: 0 },
      ],
    },
    model: {
      type: 'BPE',
      unk_token: '<unk>',
      fuse_unk: true,
      byte_fallback: true,
      vocab: Object.fromEntries(vocab.map((token, id) => [token, id])),
      merges: ['a b', '▁ ab', '▁ a'],
    },
  };
  const tokenizer = createTokenizer(json, 't');

  test('the space that was added has no offset and does not come back', () => {
    const { ids, offsets } = tokenizer.encode('ab a 文 ab');
    expect(ids.map((id) => vocab[id])).toEqual(['<s>', '▁ab', '▁a', '▁', '<0xE6>', '<0x96>', '<0x87>', '▁ab']);
    expect(offsets).toEqual([
      [0, 0],
      [0, 2],
      [2, 4],
      [4, 5],
      [5, 6],
      [5, 6],
      [5, 6],
      [6, 9],
    ]);
    expect(tokenizer.decode(ids)).toBe('ab a 文 ab');
    const stream = tokenizer.streamDecoder();
    expect(ids.map((id) => stream.push(id))).toEqual(['', 'ab', ' a', ' ', '', '', '文', ' ab']);
  });

  test('texts come back', () => {
    fc.assert(fc.property(texts, (text) => void expect(tokenizer.decode(tokenizer.encode(text).ids)).toBe(text)));
  });

  test('added tokens with marked spaces are written with spaces, as those of Gemma for runs', () => {
    const content = fc.string({ unit: fc.constantFrom('▁', '▁', 'a', 'b', '<'), minLength: 1, maxLength: 6 }),
      token = fc.record({ content, special: fc.boolean(), normalized: fc.boolean() }),
      text = fc.string({ unit: fc.constantFrom(' ', ' ', 'a', 'b', '<', '\n', '文'), maxLength: 20 });
    fc.assert(
      fc.property(fc.uniqueArray(token, { maxLength: 6, selector: (each) => each.content }), text, (tokens, text) => {
        const known = [...new Set([...vocab, ...tokens.map((each) => each.content)])],
          own = createTokenizer(
            {
              ...json,
              added_tokens: tokens.map((each) => ({ ...each, id: known.indexOf(each.content) })),
              normalizer: json.normalizer.normalizers[1],
              post_processor: null,
              decoder: { type: 'Sequence', decoders: json.decoder.decoders.slice(0, 3) },
              model: {
                ...json.model,
                vocab: Object.fromEntries(known.map((piece, id) => [piece, id])),
                merges: known
                  .slice(vocab.indexOf('▁'))
                  .flatMap((piece) =>
                    Array.from({ length: piece.length - 1 }, (_, i) => [piece.slice(0, i + 1), piece.slice(i + 1)]),
                  ),
              },
            },
            't',
          );
        const { ids, offsets } = own.encode(text),
          stream = own.streamDecoder({ special: true });
        expect(own.decode(ids, { special: true })).toBe(text);
        expect(ids.map((id) => stream.push(id)).join('') + stream.end()).toBe(text);
        let at = 0;
        for (const [i, [start, end]] of offsets.entries()) {
          const piece = known[ids[i]];
          expect([start <= at, end >= start]).toEqual([true, true]);
          if (!piece.startsWith('<0x')) expect(text.slice(start, end)).toBe(piece.replaceAll('▁', ' '));
          if (!piece.startsWith('<0x'))
            expect(Buffer.from(own.bytesOf(ids[i])).toString()).toBe(text.slice(start, end));
          at = end;
        }
        expect(at).toBe(text.length);
      }),
    );
  });
});

test('an id with which a model pads its vocabulary has no text', () => {
  const json = referenceJson('data/goldens/llama/tokenizer.json'),
    { size } = createTokenizer(json, 't'),
    padded = createTokenizer(json, 't', size + 40),
    { ids } = padded.encode('a b');
  expect(padded.size).toBe(size);
  fc.assert(
    fc.property(fc.integer({ min: size, max: size + 39 }), fc.nat(ids.length), (id, at) => {
      expect(padded.bytesOf(id)).toEqual(new Uint8Array(0));
      expect(padded.decode([...ids.slice(0, at), id, ...ids.slice(at)])).toBe(padded.decode(ids));
    }),
  );
  for (const id of [-1, 0.5, size + 40])
    expect(() => padded.bytesOf(id)).toThrow(`a token id must be an integer from 0 to ${size + 39}, got ${id}`);
});

test.each<[string, (json: Record<string, unknown>) => unknown]>([
  ['no object', () => []],
  ['another model', (json) => ({ ...json, model: { ...(json.model as object), type: 'WordPiece' } })],
  ['a normalizer', (json) => ({ ...json, normalizer: { type: 'Precompiled' } })],
  ['no vocabulary', (json) => ({ ...json, model: { type: 'BPE' } })],
  ['an id that is none', (json) => ({ ...json, model: { type: 'BPE', vocab: { a: -1 }, merges: [] } })],
  ['no merges', (json) => ({ ...json, model: { type: 'BPE', vocab: { a: 1 } } })],
])('refuses %s', (_, change) => {
  expect(() =>
    createTokenizer(change(referenceJson('data/goldens/llama/tokenizer.json')), 't'),
  ).toThrowErrorMatchingSnapshot();
});

test('a tokenizer.json with anything replaced or left out works or is one sentence', () => {
  const good = JSON.stringify(referenceJson('data/goldens/llama/tokenizer.json'));
  const wrong = fc.constantFrom<unknown>(undefined, null, 0, -1, 1.5, '', 'ByteLevel', [], {}, [null], true);
  fc.assert(
    fc.property(fc.array(fc.nat(), { minLength: 1, maxLength: 6 }), wrong, (path, value) => {
      const json = JSON.parse(good) as Record<string, unknown>;
      let at = json;
      for (const [depth, step] of path.entries()) {
        const keys = Object.keys(at);
        const key = keys[step % keys.length];
        if (key === undefined) return;
        const next = at[key];
        if (depth === path.length - 1 || typeof next !== 'object' || next === null) at[key] = value;
        else at = next as Record<string, unknown>;
        if (at[key] === value) break;
      }
      try {
        const tokenizer = createTokenizer(json, 't');
        tokenizer.decode(tokenizer.encode('The code is: XK7 \u00e9.').ids);
      } catch (error) {
        if (!KvError.is(error)) throw error;
        expect(error.message).toMatch(/^t: .*(expected|must) .*, got .*/s);
      }
    }),
    { numRuns: 200 },
  );
});
