import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { embeddings as signal } from '@kv/core';
import { apply } from '@kv/cpu';
import { compile } from '@kv/core/engine';
import type { Embeddings, Tokens } from '@kv/core';
import { each, scorerLaws } from '@kv/laws';
import { embedding, learnRank, ranker, regex, semantic, sponsorship, structure } from '../src/index.ts';
import type { Detector } from '../src/index.ts';
import { positions } from './tokenise.ts';
import { anchorsOracle } from './embedding.oracle.ts';

const tokenise = (text: string): Tokens => {
  const offsets = [...text.matchAll(/ ?\p{L}+|[^]/gu)].map((m) => [m.index, m.index + m[0].length] as const);
  return { ids: offsets.map((_, i) => i), text, offsets };
};
const until = (detector: Detector, text: string): string[] => {
  const t = tokenise(text);
  return positions(detector, t).map((i) => text.slice(0, t.offsets[i][1]));
};

const rows = ranker('rows', { needs: () => signal }, () => (_, e) => (e as Embeddings).rows([1, 2, 3]));
describe.each(
  [
    sponsorship({ anchors: semantic() }),
    sponsorship({ anchors: embedding({ above: 0.9 }) }),
    structure({ anchors: embedding({ concepts: ['ab'], above: 0.2 }) }),
    learnRank({ rank: rows() }),
  ].map((piece) => [piece.label, piece] as const),
)('%s', (_, piece) => {
  each(scorerLaws(piece, { runs: 40 }), test);
});

test.each([
  ['Remember this number 7312 well.', 'Remember this number'],
  ['Anna said that the code was 4711.', 'Anna said that the code was'],
  ['She told me: 4711', 'She told me:'],
  ['"Four," he replied', '"Four," he replied'],
  ['Keep in mind that 12 come', 'Keep in mind that'],
  ["don't forget the value 9", "don't forget the value"],
  ['NOTE: 9', 'NOTE:'],
  ['He wrote down 99', 'He wrote down'],
])('semantic: %s', (text, phrase) => {
  expect(until(semantic(), text)).toEqual([phrase]);
});
test.each(['nothing of note7', 'the unsaid word', 'a notebook', 'sayso', 'rereported'])(
  'semantic finds nothing in: %s',
  (text) => {
    expect(until(semantic(), text)).toEqual([]);
  },
);
test('semantic finds what regex finds', () => {
  fc.assert(
    fc.property(
      fc.array(fc.constantFrom('The ', 'password', ': ', 'x9 ', 'said ', 'API_KEY=', '\n', 'é '), { maxLength: 30 }),
      (parts) => {
        const t = tokenise(parts.join('')),
          found = new Set(positions(semantic(), t));
        positions(regex(), t).forEach((i) => expect(found.has(i)).toBe(true));
      },
    ),
    { numRuns: 60 },
  );
});

/** A vocabulary of ten tokens, a digit each, with random embeddings. */
const tables = fc.array(fc.array(fc.integer({ min: -4, max: 4 }), { minLength: 3, maxLength: 3 }), {
  minLength: 10,
  maxLength: 10,
});
const digits = (ids: readonly number[]): Tokens => ({
  ids,
  text: ids.join(''),
  offsets: ids.map((_, i) => [i, i + 1] as const),
});
const given = (table: readonly (readonly number[])[]): Embeddings => ({
  width: 3,
  encode: (text) => Array.from(text.trim(), Number),
  rows: (ids) => Float32Array.from(ids.flatMap((id) => table[id])),
});
const texts = fc.record({
  table: tables,
  ids: fc.array(fc.nat(9), { maxLength: 30 }),
  concepts: fc.array(fc.array(fc.nat(9), { minLength: 1, maxLength: 3 }), { minLength: 1, maxLength: 3 }),
  above: fc.constantFrom(-0.503, 0.201, 0.703, 0.951),
});

test('embedding agrees with the oracle, concepts of several tokens too', () => {
  fc.assert(
    fc.property(texts, ({ table, ids, concepts, above }) => {
      expect(embedding({ concepts: concepts.map((c) => c.join('')), above }).run(digits(ids), given(table))).toEqual(
        anchorsOracle(table, ids, concepts, above),
      );
    }),
    { numRuns: 200 },
  );
});
test('a sequence that grows has the anchors of the whole', () => {
  fc.assert(
    fc.property(texts, fc.nat(30), ({ table, ids, concepts, above }, cut) => {
      const detect = embedding({ concepts: concepts.map((c) => c.join('')), above }),
        growing = { ids: ids.slice(0, cut), text: '', offsets: digits(ids).offsets.slice(0, cut) },
        e = given(table);
      detect.run(growing, e);
      Object.assign(growing, digits(ids));
      expect(detect.run(growing, e)).toEqual(
        embedding({ concepts: concepts.map((c) => c.join('')), above }).run(digits(ids), e),
      );
    }),
    { numRuns: 60 },
  );
});
test('the anchor is the sign that follows in the clause', () => {
  const e: Embeddings = {
    width: 2,
    encode: () => [0],
    rows: (ids) => Float32Array.from(ids.flatMap((id) => (id === 0 ? [1, 0] : [0, 1]))),
  };
  const at = (words: readonly string[]): readonly number[] => {
    let end = 0;
    return positions(
      embedding({ concepts: ['x'] }),
      {
        ids: words.map((w) => (w === 'clave' ? 0 : 1)),
        text: words.join(''),
        offsets: words.map((w) => [end, (end += w.length)] as const),
      },
      e,
    );
  };
  expect(at(['La ', 'clave', ' es', ':', ' 4'])).toEqual([3]);
  expect(at(['clave', ':', '：', '4'])).toEqual([1]);
  expect(at(['clave', ' es', ' la', ' mas', ':'])).toEqual([0]);
  expect(at(['clave', '.', ' b', ':'])).toEqual([0]);
  expect(at(['clave', '::', 'b'])).toEqual([0]);
});
test('it reads the embeddings as a signal, and says what it cannot do', () => {
  expect(compile(sponsorship({ anchors: embedding() })).needs.map((s) => s.id)).toContain('embeddings');
  expect(compile(sponsorship()).needs.map((s) => s.id)).not.toContain('embeddings');
  expect(sponsorship({ anchors: embedding() }).label).toBe('sponsorship(anchors=embedding)');
  expect(sponsorship({ anchors: embedding({ above: 0.7 }) }).label).toBe('sponsorship(anchors=embedding(above=0.7))');
  expect(() => apply(structure({ anchors: embedding() }), { tokens: digits([1]) })).toThrow(
    "needs the signal embeddings: pass it as 'embeddings'",
  );
  expect(() => embedding({ concepts: [] })).toThrow(
    'embedding: concepts must be words or short phrases with commas between them, got an empty array',
  );
  expect(() => embedding({ above: 2 })).toThrow('embedding: above must be a cosine from -1 to 1, got 2');
});
