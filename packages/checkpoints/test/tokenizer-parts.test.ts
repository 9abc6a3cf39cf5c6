import * as huggingface from '@huggingface/tokenizers';
import fc from 'fast-check';
import { readdirSync } from 'node:fs';
import { afterEach, describe, expect, test } from 'vitest';
import { createTokenizer } from '../src/tokenizer/tokenizer.ts';
import { readGguf } from '../src/format/gguf.ts';
import { fileSource } from '../src/read/source.ts';
import { ggufTokenizer } from '../src/tokenizer/gguf.ts';
import type { Tokenizer } from '../src/tokenizer/interface.ts';
import { byteNames } from '../src/tokenizer/token-bytes.ts';
import { WorkLimit } from '../src/tokenizer/work-limit.ts';
import { fixture, fixtureJson } from '@kv/model-testing/fixture';
import { inTurn } from '@kv/model-testing/in-turn';
import { reference } from '@kv/model-testing/reference';

interface Model {
  readonly vocab: Readonly<Record<string, number>>;
  readonly unk_token?: string;
}
const jsonOf = (name: string) =>
  fixtureJson<{ tokenizer: { readonly model: Model; readonly decoder: unknown } }>(`tokenizers/${name}`).tokenizer;
const tokenizers: [string, () => Promise<Tokenizer>][] = readdirSync(fixture('tokenizers/')).map((name) => [
  name,
  async () => createTokenizer(jsonOf(name), name),
]);
tokenizers.push([
  'SentencePiece in a GGUF file',
  async () => {
    const file = await readGguf(await fileSource(reference('data/models/vocabulary-spm.gguf')));
    await file.close();
    return ggufTokenizer(file.metadata, 'spm');
  },
]);

/** Units of several scripts, spaces, marks, special tokens and halves of characters. */
const units = [
  'a',
  'The ',
  ' ',
  '\n',
  '\t',
  '7',
  'é',
  'e\u0301',
  '文',
  'हिन्दी',
  'العربية',
  '𝄞',
  '👩‍👩‍👧',
  '\uFF76\uFF9E',
].concat(['\u1112\u1161\u11ab', '<|im_start|>', '</s>', '<s', '▁', '\uD800', "'s", 'Q_', '\u0301']);
const texts = fc
  .array(fc.tuple(fc.constantFrom(...units), fc.constantFrom(1, 2, 3, 50, 1000)), { minLength: 1, maxLength: 6 })
  .map((runs) => runs.map(([unit, times]) => unit.repeat(times)).join(''));

const PAUSE = 2 ** 17;
const { spend } = WorkLimit.prototype;
afterEach(() => {
  WorkLimit.prototype.spend = spend;
});
/** Counts steps until the test ends. */
function counting(): { steps: number } {
  const count = { steps: 0 };
  WorkLimit.prototype.spend = function (steps) {
    count.steps += steps;
    spend.call(this, steps);
  };
  return count;
}

describe.each(inTurn(tokenizers, 2))('%s', (_, load) => {
  test('parts are what the whole is, each after a bounded number of steps', async () => {
    const tokenizer = await load(),
      count = counting();
    fc.assert(
      fc.property(texts, fc.boolean(), fc.boolean(), (text, special, parse) => {
        const ids: number[] = [];
        count.steps = 0;
        for (const part of tokenizer.encodeParts(text, { special, parse })) {
          for (const id of part) ids.push(id);
          // a single match of an expression has no pause
          expect(count.steps).toBeLessThan(PAUSE + 8 * text.length + 4096);
          count.steps = 0;
        }
        const whole = tokenizer.encode(text, { special, parse }).ids;
        expect(ids.length).toBe(whole.length);
        expect(ids.every((id, i) => id === whole[i])).toBe(true);
      }),
      { numRuns: 30 },
    );
  });
  test('a text can be given up', async () => {
    const parts = (await load()).encodeParts('a'.repeat(100_000));
    expect(parts.next().done).toBe(false);
    expect(parts.return()).toEqual({ done: true, value: undefined });
  });
  test('steps grow with the text', async () => {
    const tokenizer = await load(),
      count = counting();
    const stepsOf = (text: string): number => {
      count.steps = 0;
      for (const _ of tokenizer.encodeParts(text));
      return count.steps;
    };
    for (const unit of units) {
      const [some, more] = [stepsOf(unit.repeat(2000)), stepsOf(unit.repeat(8000))];
      expect([unit, more / some < 5]).toEqual([unit, true]);
    }
  });
});

/** The library's BPE, used as an oracle; it cannot pause. Its declarations leave the class out. */
const { BPE: Library } = huggingface as unknown as {
  readonly BPE: new (
    model: object,
  ) => { readonly tokens_to_ids: ReadonlyMap<string, number>; encode(words: readonly string[]): readonly string[] };
};
test.each(['smollm.json', 'gpt2.json', 'llama3.json', 'qwen2.json'])('joins of %s are those of the library', (name) => {
  const json = jsonOf(name),
    library = new Library(json.model),
    tokenizer = createTokenizer({ ...json, normalizer: null, added_tokens: [], post_processor: null, ...whole }, name);
  fc.assert(
    fc.property(texts, (text) => {
      const word = text.replace(/\p{Surrogate}/gu, '\uFFFD'),
        wanted = library.encode([byteNames(word)]).map((token) => library.tokens_to_ids.get(token));
      expect(tokenizer.encode(word).ids).toEqual(wanted.filter((id) => id !== undefined));
    }),
    { numRuns: 60 },
  );
});
/** Makes a text a single word. */
const whole = { pre_tokenizer: { type: 'ByteLevel', add_prefix_space: false, use_regex: false } };
