/** Text that continues where a sequence was cut: forks, saved caches, prefixes and answers do not begin a text. */
import { readdirSync } from 'node:fs';
import { compose, positions, scorer, tokens } from '@kv/core';
import { topK } from '@kv/selectors-top-k';
import { wholeUnits } from '@kv/selectors-whole-units';
import { sentences } from '@kv/units-trunks';
import fc from 'fast-check';
import { beforeAll, describe, expect, test } from 'vitest';
import { readGguf, fileSource, createTokenizer, ggufTokenizer } from '@kv/checkpoints';
import { hostRunning, TokenText } from '@kv/engine';
import { createPrefixStore, decode, generate, loadCache, loadModel, saveCache, Sequence } from '../src/index.ts';
import type { HostModel, StreamDecoder, Tokenizer } from '../src/index.ts';
import { fixture, fixtureJson } from '@kv/model-testing/fixture';
import { inTurn } from '@kv/model-testing/in-turn';
import { reference } from '@kv/model-testing/reference';

const made = new Map<string, Tokenizer>();
for (const file of readdirSync(fixture('tokenizers/')))
  made.set(
    file.replace('.json', ''),
    createTokenizer(fixtureJson<{ tokenizer: unknown }>(`tokenizers/${file}`).tokenizer, file),
  );
let model: HostModel;
beforeAll(async () => {
  const file = await readGguf(await fileSource(reference('data/models/vocabulary-spm.gguf')));
  await file.close();
  made.set('spm', ggufTokenizer(file.metadata, 'spm'));
  made.set(
    'spm without a prefix',
    ggufTokenizer(new Map([...file.metadata, ['tokenizer.ggml.add_space_prefix', false]]), 't'),
  );
  model = await loadModel(reference('data/goldens/llama'));
});
const names = [...made.keys(), 'spm', 'spm without a prefix'];
/** Tokenizers whose ids the small model has. */
const small = [...made].filter(([, { size }]) => size <= 512).map(([name]) => name);

const piece = fc.oneof(
  fc.constantFrom(
    ...[
      'The capital of ',
      ' ',
      '  ',
      '.',
      '! ',
      '\n',
      'é',
      'हिन्दी ',
      '文字',
      'かな',
      '한국어',
      'שלום ',
      'مرحبا',
      '🐶 of',
      '👩‍👩‍👧',
      '\u0000',
      '\u200F',
      '\uFEFF',
      '\uFFFD',
      '\u2581',
    ],
  ),
  fc.string({ unit: 'binary', maxLength: 3 }),
);
/** Ids of a text mixed with any others: half characters, special tokens, bytes that are not text. */
const idsFor = ({ encode, size }: Tokenizer): fc.Arbitrary<readonly number[]> =>
  fc
    .array(fc.oneof({ weight: 2, arbitrary: piece }, { weight: 1, arbitrary: fc.nat({ max: size - 1 }) }), {
      maxLength: 8,
    })
    .map((parts) => parts.flatMap((part) => (typeof part === 'number' ? [part] : [...encode(part).ids])));
const textOf = (tokenizer: Tokenizer, ids: readonly number[]): TokenText => {
  const text = new TokenText(tokenizer);
  for (const id of ids) text.push(id);
  return text;
};
const read = ({ ids, text, offsets }: TokenText): unknown => ({ ids, text, offsets });

describe.each(inTurn(names, 3))('%s', (name) => {
  test('at every cut a copy goes on as the whole does, and a text and what follows are the text of all ids', () => {
    const tokenizer = made.get(name)!;
    fc.assert(
      fc.property(idsFor(tokenizer), (ids) => {
        const whole = textOf(tokenizer, ids),
          growing = new TokenText(tokenizer),
          all = tokenizer.decode(ids);
        expect(all).toBe(whole.text + whole.decoder().end());
        for (let cut = 0; cut <= ids.length; cut++) {
          const rest = ids.slice(cut);
          for (const copy of [growing.fork(), growing.fork().fork(), whole.fork(cut)]) {
            expect(read(copy)).toEqual(read(growing));
            for (const id of rest) copy.push(id);
            expect(read(copy)).toEqual(read(whole));
          }
          const decoder = growing.decoder();
          expect(growing.text + rest.map((id) => decoder.push(id)).join('') + decoder.end()).toBe(all);
          if (cut < ids.length) growing.push(ids[cut]);
        }
      }),
      { numRuns: Math.ceil(0.4 * (fc.readConfigureGlobal().numRuns ?? 100)) }, // each at all its cuts, in two dozen tokenizers
    );
  });

  test('offsets never go back, and cover what each token adds to', () => {
    const tokenizer = made.get(name)!;
    fc.assert(
      fc.property(idsFor(tokenizer), (ids) => {
        const { text, offsets } = textOf(tokenizer, ids);
        let at = 0,
          end = 0;
        for (const [from, to] of offsets) {
          if (from === to) continue; // a special token may be in the middle of a character
          expect(from).toBeGreaterThanOrEqual(at);
          expect(to).toBeGreaterThanOrEqual(Math.max(from, end));
          expect(from).toBeLessThanOrEqual(end);
          [at, end] = [from, to];
        }
        expect(end).toBe(text.length);
      }),
    );
  });
});

test('a character that a token begins after a whole one is covered by it and by those that complete it', () => {
  const tokenizer = createTokenizer(
      {
        model: { type: 'BPE', vocab: { ĠðŁ: 0, Ĳ: 1, '¶': 2, Ġ: 3, ð: 4, Ł: 5, s: 6 }, merges: [] },
        added_tokens: [{ id: 6, content: 's', special: true }],
        decoder: { type: 'ByteLevel' },
      },
      't',
    ),
    { text, offsets } = textOf(tokenizer, [0, 6, 1, 2, 3]);
  expect([text, offsets]).toEqual([
    ' 🐶 ',
    [
      [0, 3],
      [1, 1],
      [1, 3],
      [1, 3],
      [3, 4],
    ],
  ]);
});

/** Scores slots by all the text that it sees, so that any other text keeps other slots. */
const reader = scorer('reader', { needs: [tokens, positions] }, (ctx) => {
  const { ids, text, offsets } = ctx.tokens,
    score = ids.map((id, i) => {
      let hash = id;
      for (const char of text.slice(0, offsets[i][1])) hash = (hash * 31 + char.codePointAt(0)!) % 9973;
      return (hash * 31 + offsets[i][0]) % 9973;
    });
  return ctx.ops.take(ctx.ops.from({ data: Float32Array.from(score), shape: [1, score.length] }), ctx.positions);
});
const policies = [compose(reader(), topK()), compose(reader(), sentences(), wholeUnits())];

/** Returns a tokenizer for all ids of the small model; the last ones repeat the first tokens. */
function widened(of: Tokenizer): Tokenizer {
  const wide = (decoder: StreamDecoder): StreamDecoder => ({
    push: (id) => decoder.push(id % of.size),
    get pending() {
      return decoder.pending;
    },
    end: () => decoder.end(),
    fork: () => wide(decoder.fork()),
  });
  return {
    ...of,
    bytesOf: (id) => of.bytesOf(id % of.size),
    decode: (ids, options) =>
      of.decode(
        [...ids].map((id) => id % of.size),
        options,
      ),
    streamDecoder: (options) => wide(of.streamDecoder(options)),
  };
}

describe.each(inTurn(small, 2))('a model of %s', (name) => {
  const over = (): HostModel => {
    const tokenizer = widened(made.get(name)!);
    return { ...model, tokenizer, ...hostRunning(model.decoder, { ...model, tokenizer }) };
  };

  test('text, offsets and kept slots are those of a run that was not cut: fork, cut, saved cache, prefix', async () => {
    const own = over();
    await fc.assert(
      fc.asyncProperty(
        idsFor(own.tokenizer).filter((ids) => ids.length > 2 && ids.length < 40),
        fc.nat(),
        fc.constantFrom(...policies),
        async (ids, at, policy) => {
          const cut = 1 + (at % (ids.length - 1)),
            [before, rest] = [ids.slice(0, cut), ids.slice(cut)],
            begun = new Sequence(own),
            fresh = new Sequence(own),
            store = createPrefixStore(own, { maxBytes: 1e8 });
          await begun.append(before);
          const whole = begun.fork();
          await whole.append(rest);
          await store.add(ids);
          await store.add(before);
          const all = [begun.fork(), whole.fork(cut), await loadCache(own, await saveCache(begun)), fresh];
          for (const each of all) await each.append(each === fresh ? ids : rest);
          all.push(whole, await store.sequence(ids));
          for (const each of all) await each.evict(policy, Math.ceil(ids.length / 2));
          const want = { ...(read(textOf(own.tokenizer, ids)) as object), kept: fresh.kept() };
          for (const each of all) {
            expect({ ...(read(each.progress.text) as object), kept: each.kept() }).toEqual(want);
            each.destroy();
          }
          begun.destroy();
          store.destroy();
        },
      ),
      { numRuns: 15 },
    );
  });

  test('a prompt and its answer are the text of all tokens, in the middle of a character too', async () => {
    const own = over();
    await fc.assert(
      fc.asyncProperty(
        idsFor(own.tokenizer).filter((ids) => ids.length > 0),
        fc.constantFrom(0, 1, 6),
        async (ids, maxNewTokens) => {
          const { text, tokens } = await generate(own, { ids, maxNewTokens, stopAtEos: false }),
            want = own.tokenizer.decode([...ids, ...tokens]),
            before = textOf(own.tokenizer, ids).text;
          expect(before + text).toBe(want);
          const sequence = new Sequence(own);
          await sequence.append(ids);
          let streamed = sequence.progress.text.text;
          for await (const chunk of decode(sequence, { maxNewTokens, stopAtEos: false })) streamed += chunk.text;
          expect(streamed).toBe(want);
          sequence.destroy();
        },
      ),
      { numRuns: 15 },
    );
  });
});
