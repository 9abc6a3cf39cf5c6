import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { generate, loadModel, type HostModel } from '../src/index.ts';
import { fixtureJson } from './fixture.ts';
import { emptyCaches, run } from './run.ts';
import { shared } from './shared.ts';
import { smollm2File } from './smollm2-file.ts';

/**
 * What transformers gives in f32 on the dequantised weights (tools/reference-models/smollm2.py): the largest of 49,152
 * logits, their mean and their norm.
 */
interface Case {
  readonly ids: number[];
  readonly logits: readonly {
    readonly at: number;
    readonly top: readonly (readonly [id: number, logit: number])[];
    readonly mean: number;
    readonly norm: number;
  }[];
  readonly greedy: number[];
  readonly ended: boolean;
  readonly text: string;
  /** The least distance between the likeliest token and the next, over the greedy ones. */
  readonly leastGap: number;
}
interface Reference {
  readonly sha256: string;
  readonly chat: Case & { readonly question: string; readonly prompt: string };
  readonly prose: Case & { readonly file: string; readonly start: number; readonly length: number };
}

/** Of the largest logit; 3.3e-6 was seen. */
const TOLERANCE = 2e-5;

const path = smollm2File('logits and answers of SmolLM2');

describe.skipIf(path === undefined)('SmolLM2-135M-Instruct, Q4_1, with the default engine', () => {
  const { sha256, chat, prose } = fixtureJson<Reference>('smollm2.json');
  const prompt = {
    chat: chat.prompt,
    prose: readFileSync(shared(`data/text/${prose.file}`), 'utf8').slice(prose.start, prose.start + prose.length),
  };
  const cases = [
    ['chat', chat, 16],
    ['prose', prose, 100],
  ] as const;
  let model: HostModel;
  beforeAll(async () => {
    model = await loadModel(path!);
  }, 120_000);
  afterAll(() => model.destroy());

  test('is the file that the reference read', () => {
    expect(createHash('sha256').update(readFileSync(path!)).digest('hex')).toBe(sha256);
  });

  test('the chat template of the file makes the prompt', () => {
    expect(model.chatTemplate!()!([{ role: 'user', content: chat.question }])).toBe(chat.prompt);
    expect(model.tokenizer.encode(prompt.chat).ids).toEqual(chat.ids);
    expect(model.tokenizer.encode(prompt.prose).ids).toEqual(prose.ids);
  });

  test.each(cases)('logits of the %s prompt, whole and in blocks', async (_, { ids, logits }, block) => {
    for (const size of [ids.length, block]) {
      const rows = await run(model.decoder, emptyCaches(model.decoder), ids, {
        want: logits.map(({ at }) => at),
        block: size,
      });
      for (const [i, { at, top, mean, norm }] of logits.entries()) {
        const row = rows[i],
          where = `position ${at} of ${ids.length}, blocks of ${size}`,
          allowed = TOLERANCE * top[0][1];
        for (const [id, logit] of top) expect(Math.abs(row[id] - logit), where).toBeLessThan(allowed);
        expect(Math.abs(row.reduce((sum, logit) => sum + logit, 0) / row.length - mean), where).toBeLessThan(allowed);
        expect(
          Math.abs(Math.sqrt(row.reduce((sum, logit) => sum + logit * logit, 0)) - norm) / norm,
          where,
        ).toBeLessThan(TOLERANCE);
      }
    }
  });

  test.each(cases)(
    'the greedy answer to the %s prompt, as tokens and as text',
    async (name, { greedy, ended, text, leastGap, logits }) => {
      // No near-tie: a deviation that the test above allows cannot change a token.
      expect(leastGap).toBeGreaterThan(2 * TOLERANCE * Math.max(...logits.map(({ top }) => top[0][1])));
      const answer = await generate(model, { prompt: prompt[name], maxNewTokens: greedy.length + (ended ? 1 : 0) });
      expect(answer.tokens).toEqual(greedy);
      expect(answer.text).toBe(text);
      expect(answer.report.finish).toBe(ended ? 'eos' : 'length');
    },
  );
});
