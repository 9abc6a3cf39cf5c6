import type { Constraint, Grammar } from '../src/index.ts';
import { beforeAll, expect, test } from 'vitest';
import { Chat, decode, generate, loadModel, Sequence } from '../src/index.ts';
import type { Model } from '../src/index.ts';

let model: Model;
beforeAll(async () => {
  model = await loadModel('embedded');
});

/** A grammar whose answers are exactly these ids, and then an end token; it counts what became of its constraints. */
function exactly(ids: readonly number[]): Grammar & { readonly counts: Record<'begun' | 'destroyed', number> } {
  const counts = { begun: 0, destroyed: 0 },
    { vocab, eosIds } = model.config;
  return {
    counts,
    begin(): Constraint {
      counts.begun++;
      let at = 0,
        there = true;
      return {
        allowed() {
          const bits = new Int32Array(Math.ceil(vocab / 32));
          for (const id of at < ids.length ? [ids[at]] : eosIds) bits[id >> 5] |= 1 << (id & 31);
          return bits;
        },
        accept(id) {
          expect(id).toBe(ids[at++]);
        },
        get complete() {
          return at === ids.length;
        },
        destroy() {
          if (there) counts.destroyed++;
          there = false;
        },
      };
    },
  };
}

const says = ' castle';
test.each([{}, { temperature: 1.5, topK: 3, minP: 0.9, seed: 5, repetitionPenalty: 1.3 }, { stopAtEos: false }])(
  'an answer is what its grammar allows, and ends where nothing more may come: %j',
  async (options: object) => {
    const ids = model.tokenizer.encode(says, { special: false }).ids,
      grammar = exactly(ids),
      prompt = 'The river was';
    for (const maxNewTokens of [50, ids.length]) {
      const { text, tokens, report } = await generate(model, { prompt, grammar, maxNewTokens, ...options });
      expect([text, tokens, report.finish]).toEqual([says, ids, 'eos']);
    }
    expect(grammar.counts).toEqual({ begun: 2, destroyed: 2 });
  },
);

test('a constraint is freed however the answer ends: at its length, by an abort, a reader that leaves, an error', async () => {
  const ids = model.tokenizer.encode(says.repeat(9), { special: false }).ids,
    grammar = exactly(ids),
    abort = new AbortController();
  expect((await generate(model, { prompt: 'A', grammar, maxNewTokens: 2 })).report.finish).toBe('length');
  for await (const _ of generate(model, { prompt: 'A', grammar, signal: abort.signal })) abort.abort();
  for await (const _ of generate(model, { prompt: 'A', grammar })) break;
  const sequence = new Sequence(model);
  await sequence.prefill([1, 2]);
  const answer = decode(sequence, { grammar });
  await answer.next();
  sequence.destroy();
  await expect(answer.next()).rejects.toThrow();
  expect(grammar.counts).toEqual({ begun: 4, destroyed: 4 });
});

test('an answer of a chat follows a grammar, and the next one goes on without', async () => {
  const ids = model.tokenizer.encode(says, { special: false }).ids,
    chat = new Chat(model, { frequencyPenalty: 0.5, logitBias: { [ids[0]]: -100 } }),
    { text, finish } = await chat.send('The river was', { grammar: exactly(ids) });
  expect([text, finish]).toEqual([says, 'eos']);
  expect((await chat.send(' old.')).text).not.toContain(says);
  chat.destroy();
});

test('penalties and biases change answers as they should, without a temperature too', async () => {
  const ask = async (options: object): Promise<readonly number[]> =>
      (await generate(model, { prompt: 'The river was the river was the river', maxNewTokens: 24, ...options })).tokens,
    usual = await ask({}),
    most = (tokens: readonly number[]): number =>
      Math.max(...tokens.map((id) => tokens.filter((other) => other === id).length));
  const [first] = usual;
  expect((await ask({ logitBias: { [first]: -100 } })).includes(first)).toBe(false);
  expect(new Set(await ask({ logitBias: { [first]: 100 } }))).toEqual(new Set([first]));
  expect(most(await ask({ presencePenalty: 2, frequencyPenalty: 2 }))).toBeLessThanOrEqual(most(usual));
  await expect(ask({ logitBias: { [model.config.vocab]: 1 } })).rejects.toThrow(
    `logitBias: must be for token ids below ${model.config.vocab}, got ${model.config.vocab}`,
  );
});
