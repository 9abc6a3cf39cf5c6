import type { Grammar } from '@kv/engine';
import { editLogits } from '@kv/engine';
import { generate, Sampler, Sequence } from '@kv/models';
import { numbers, random } from '@kv/gpu-testing';
import fc from 'fast-check';
import { expect } from 'vitest';
import { rowsOf } from '../src/index.ts';
import { encodeEditedLogits } from '../src/sample.ts';
import { everywhere, gpuTests, twice, ulp } from './device.ts';
import { drawOf, nucleus } from './sample.oracle.ts';
import { both, fixture } from './sequences.ts';

const gpuTest = await gpuTests();
const ids = (n: number): number[] => Array.from({ length: n }, (_, i) => (i * 37 + 11) % 64);

/** Allows ids at random, other ones after each token, and counts what it is told. */
function randomGrammar(seed: number, vocab: number): Grammar & { readonly accepted: number[] } {
  const accepted: number[] = [];
  return {
    accepted,
    begin() {
      let next = seed;
      const bits = (): Int32Array => {
        const draw = random(next),
          words = Int32Array.from({ length: Math.ceil(vocab / 32) }, () => draw() * 2 ** 32);
        words[0] |= 8; // never none
        return words;
      };
      let allowed = bits();
      return {
        allowed: () => (next % 4 === 3 ? undefined : allowed),
        accept(id) {
          if (next % 4 !== 3 && ((allowed[id >> 5] >>> (id & 31)) & 1) === 0) throw new Error(`${id} may not come`);
          accepted.push(id);
          next++;
          allowed = bits();
        },
        complete: false,
        destroy() {},
      };
    },
  };
}

const asked = fc.record(
  {
    repetitionPenalty: fc.double({ min: 0.5, max: 2, noNaN: true }),
    frequencyPenalty: fc.double({ min: -2, max: 2, noNaN: true }),
    presencePenalty: fc.double({ min: -2, max: 2, noNaN: true }),
    logitBias: fc.dictionary(fc.nat(63).map(String), fc.double({ min: -5, max: 5, noNaN: true }).map(Math.fround), {
      maxKeys: 6,
    }),
    grammar: fc.nat(99),
  },
  { requiredKeys: [] },
);

gpuTest('greedy ids under a grammar, biases and penalties are those of the host', (gpu) =>
  both(gpu, fixture('llama'), async (host, device) => {
    await fc.assert(
      fc.asyncProperty(asked, async ({ grammar, ...options }) => {
        const answer = async (model: typeof host | typeof device): Promise<readonly number[]> => {
          const by = grammar === undefined ? undefined : randomGrammar(grammar, 64),
            { tokens } = await generate(model, { ids: ids(9), maxNewTokens: 8, ...options, grammar: by, inFlight: 3 });
          if (by) expect(by.accepted).toEqual(tokens);
          return tokens;
        };
        expect(await answer(device)).toEqual(await answer(host));
      }),
      { numRuns: 5 },
    );
  }),
);

gpuTest('a drawn id is where its number stands among the probabilities of the steps in their order', (gpu) =>
  both(gpu, fixture('llama'), async (_, device) => {
    const [temperature, topK, topP, minP] = [0.4, 16, 0.9, 0.3],
      options = { temperature, topK, topP, minP, repetitionPenalty: 1.3, logitBias: { 5: 2, 40: 3 } },
      samplerOf = (seed: number): Sampler =>
        new Sampler({ ...options, seed }, { prompt: ids(9), grammar: randomGrammar(4, 64) }),
      sequence = new Sequence(device),
      edited = new Float32Array(64);
    await sequence.prefill(ids(9));
    editLogits((await sequence.logits())[0], samplerOf(0), edited);
    const [{ places, weights }, ...wider] = [
        nucleus([...edited], temperature, topK, topP, minP),
        nucleus([...edited], temperature, topK, topP),
        nucleus([...edited], temperature, topK, 1),
        nucleus(
          [...edited].filter((x) => x > -Infinity),
          temperature,
          0,
          1,
        ),
      ],
      upTo = (to: number): number => weights.slice(0, to).reduce((sum, w, id) => sum + (places.has(id) ? w : 0), 0);
    let size = places.size; // every selection takes ids away
    for (const { places: more } of wider) {
      expect(more.size).toBeGreaterThan(size);
      size = more.size;
    }
    for (let seed = 0; seed < 24; seed++) {
      const id = await sequence.next(samplerOf(seed)),
        share = drawOf(seed, 9, 0) * upTo(64);
      expect(places.has(id), `${id} may not be drawn`).toBe(true);
      expect(share).toBeGreaterThan(upTo(id) - 1e-3);
      expect(share).toBeLessThan(upTo(id + 1) + 1e-3);
    }
    sequence.destroy();
  }),
);

gpuTest('edited logits of any row are those of the host within a rounding', (gpu) =>
  everywhere(
    fc.record({ seed: fc.nat(), width: fc.integer({ min: 1, max: 300 }), rows: fc.constantFrom(1, 2), asked }),
    async ({ seed, width, rows, asked: { grammar, ...options } }) => {
      const data = numbers(seed, rows * width, 'any'),
        row = data.slice(-width);
      row[seed % width] = -Infinity;
      data.set(row, data.length - width);
      const { logitBias = {} } = options,
        sampler = new Sampler(
          { ...options, logitBias: Object.fromEntries(Object.entries(logitBias).filter(([id]) => Number(id) < width)) },
          {
            prompt: [0, width >> 1],
            grammar: grammar === undefined ? undefined : randomGrammar(grammar, Math.max(4, width)),
          },
        ),
        want = new Float32Array(width),
        { allowed, edits } = sampler;
      if (allowed && width < 4) return; // may allow nothing
      editLogits(row, { allowed, edits }, want);
      const [got] = await twice(gpu, (commands) => {
        const x = { ...rowsOf(commands.upload(data, [rows, width]), width), at: (rows - 1) * width },
          edited = encodeEditedLogits(commands, x, { allowed, edits });
        return [edited === x ? commands.upload(want, [width]) : edited.tensor];
      });
      for (const [id, x] of want.entries())
        if (Number.isFinite(x)) expect(Math.abs(got[id] - x)).toBeLessThanOrEqual(ulp(Math.abs(x) + 2));
        else expect(got[id]).toBe(x);
    },
    6,
  ),
);

gpuTest('steps start ahead under biases alone, and none does where the ids before count', (gpu) =>
  both(gpu, fixture('llama'), async (_, device) => {
    const ahead = async (options: object): Promise<number> => {
      const sequence = new Sequence(device);
      await sequence.prefill(ids(16));
      await sequence.append([1]); // room for the next steps
      const sampler = new Sampler(options, options);
      await sequence.next(sampler, { ahead: 2 });
      await sequence.halt();
      const { rolledBack } = sequence.stats.counts;
      sequence.destroy();
      return rolledBack;
    };
    const usual = await ahead({ temperature: 1 });
    expect(usual).toBeGreaterThan(0);
    expect(await ahead({ logitBias: { 3: 9 } })).toBe(usual);
    for (const options of [{ frequencyPenalty: 1 }, { repetitionPenalty: 1.2, temperature: 1 }])
      expect(await ahead(options)).toBe(0);
  }),
);

gpuTest('ids that a model bans never come, with steps ahead too', (gpu) =>
  both(gpu, fixture('llama'), async (host, device) => {
    const answer = async (
      model: typeof host | typeof device,
      bannedIds: readonly number[],
    ): Promise<readonly number[]> =>
      (
        await generate(
          { ...model, config: { ...model.config, bannedIds } },
          { ids: ids(9), maxNewTokens: 8, inFlight: 3 },
        )
      ).tokens;
    const banned = [...new Set(await answer(host, []))],
      tokens = await answer(device, banned);
    expect(tokens).toEqual(await answer(host, banned));
    expect(tokens.filter((token) => banned.includes(token))).toEqual([]);
  }),
);

gpuTest('a grammar that allows nothing, and a bias beyond the vocabulary, are refused in one sentence', (gpu) =>
  both(gpu, fixture('llama'), async (_, device) => {
    const sequence = new Sequence(device);
    await sequence.prefill(ids(5));
    const none: Grammar = {
      begin: () => ({ allowed: () => Int32Array.of(0, 0, -1), accept() {}, complete: false, destroy() {} }),
    };
    await expect(sequence.next(new Sampler({}, { grammar: none }))).rejects.toThrow(
      /^grammar: allows none of the model's 64 tokens here/,
    );
    await expect(sequence.next(new Sampler({ logitBias: { 64: 1 } }))).rejects.toThrow(
      'logitBias: must be for token ids below 64, got 64',
    );
    expect(await sequence.next()).toBeLessThan(64); // it goes on
    sequence.destroy();
  }),
);
