/** 10,000 odd strings for every kind of tokenizer, against digests of the Rust library: tools/reference-models/tokenizers_odd.py. */
import { createHash } from 'node:crypto';
import { expect, test } from 'vitest';
import { createTokenizer } from '../src/tokenizer/tokenizer.ts';
import { ggufTokenizer } from '../src/tokenizer/gguf.ts';
import type { Tokenizer } from '../src/tokenizer/interface.ts';
import { fixtureJson } from '@kv/model-testing/fixture';

const { units, count, chunk, longest, digests } = fixtureJson<{
  units: readonly string[];
  count: number;
  chunk: number;
  longest: number;
  digests: Readonly<Record<string, string>>;
}>('tokenizers-odd.json');
const DIGEST = 8;

/** The strings of the script, by the same generator. */
const texts = ((): readonly string[] => {
  let state = 40;
  const below = (n: number): number => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return (state >>> 16) % n;
  };
  return Array.from({ length: count }, () => {
    const length = 1 + below(longest);
    return Array.from({ length }, () => units[below(units.length)]).join('');
  });
})();

/** Every tenth group of 100 strings, or all of them. */
const step = process.env.KV_FULL === undefined ? 10 : 1;

/** Returns the groups of strings whose ids are not those of the Rust library. */
function different(tokenizer: Tokenizer, want: string): readonly string[] {
  const found: string[] = [];
  for (let group = 0; group < count / chunk; group += step) {
    const ids = texts.slice(group * chunk, (group + 1) * chunk).map((text) => tokenizer.encode(text).ids),
      got = createHash('sha256').update(JSON.stringify(ids)).digest('hex').slice(0, DIGEST);
    if (got !== want.slice(group * DIGEST, (group + 1) * DIGEST)) found.push(`strings from ${group * chunk}`);
  }
  return found;
}

interface TokenizerJson {
  readonly added_tokens: readonly { readonly id: number; readonly content: string; readonly special: boolean }[];
  readonly model: { readonly vocab: Readonly<Record<string, number>>; readonly merges: readonly (readonly string[])[] };
}
const json = (name: string): TokenizerJson =>
  fixtureJson<{ tokenizer: TokenizerJson }>(`tokenizers/${name}.json`).tokenizer;

test.each(Object.entries(digests))('%s: ids of 10,000 odd strings are those of the Rust library', (name, want) => {
  expect(different(createTokenizer(json(name), name), want)).toEqual([]);
});

test.each([
  ['lfm2', 'gpt2', '<|startoftext|>', '<|im_end|>'],
  ['qwen35', 'gpt2', '<|endoftext|>', '<|im_end|>'],
  ['gemma', 'gemma4', '<s>', '</s>'], // Gemma 4 has the tokenizer of Gemma 3, in files with merges
])('the same from a GGUF file of %s, whose model is %s', (name, kind, begins, ends) => {
  const { added_tokens: added, model } = json(name),
    ids = { ...model.vocab, ...Object.fromEntries(added.map(({ id, content }) => [content, id])) },
    tokens = Object.keys(ids).sort((one, other) => ids[one] - ids[other]),
    types = tokens.map((content) => {
      const token = added.find((each) => each.content === content);
      if (token === undefined) return kind === 'gemma4' && /^<0x..>$/.test(content) ? 6 : 1;
      return token.special ? 3 : 4;
    });
  const metadata = new Map<string, unknown>([
    ['tokenizer.ggml.model', kind],
    ['tokenizer.ggml.pre', name],
    ['tokenizer.ggml.tokens', tokens],
    ['tokenizer.ggml.token_type', types],
    ['tokenizer.ggml.merges', model.merges.map((merge) => merge.join(' '))],
    ['tokenizer.ggml.bos_token_id', ids[begins]],
    ['tokenizer.ggml.eos_token_id', ids[ends]],
  ]);
  expect(different(ggufTokenizer(metadata, `${name}.gguf`), digests[name])).toEqual([]);
});
