/** Cuts of each `tokenizer.ggml.pre` compared with llama.cpp's expressions: tools/reference-models/gguf_words.py. */
import { describe, expect, test } from 'vitest';
import { WORDS } from '../src/tokenizer/gguf-words.ts';
import { preTokenizer } from '../src/tokenizer/pre-tokenizer.ts';
import { WorkLimit } from '../src/tokenizer/work-limit.ts';
import { fixtureJson } from '@kv/model-testing/fixture';

const { texts, names, cuts, words, left } = fixtureJson<{
  texts: readonly string[];
  names: Readonly<Record<string, { type: string; ignoreMerges: boolean; addBos: boolean }>>;
  cuts: Readonly<Record<string, number>>;
  words: readonly (readonly (readonly number[])[])[];
  left: readonly string[];
}>('gguf-words.json');

test('every name of llama.cpp is known but for those that are cut in other ways', () => {
  expect([...WORDS.keys()].sort()).toEqual(Object.keys(names).sort());
  expect(left.filter((name) => WORDS.has(name))).toEqual([]);
});

describe.each(Object.entries(names))('%s', (name, { type, ignoreMerges, addBos }) => {
  test('merges and the beginning token are as there', () => {
    const own = WORDS.get(name)!;
    expect([own.ignoreMerges ?? false, own.addBos ?? false]).toEqual([ignoreMerges, addBos]);
  });
  // llama.cpp adapts these expressions to ASCII; this package uses those of tokenizer.json, see tokenizer-gguf.test.ts
  test.skipIf(['TEKKEN', 'GPT4O', 'MINIMAX_M2'].includes(type))('hard texts are cut into the same words', () => {
    const { cut } = preTokenizer({ type: 'Sequence', pretokenizers: WORDS.get(name)!.cuts }, name);
    texts.forEach((text, i) => {
      const got = [...cut(text, new WorkLimit(name, text.length))].flatMap((word) => word?.length ?? []);
      expect(got, JSON.stringify(text)).toEqual(words[cuts[type]][i]);
    });
  });
});
