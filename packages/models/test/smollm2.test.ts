import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { loadModel, type HostModel } from '../src/index.ts';
import { fixtureJson } from './fixture.ts';
import { expectAnswer, expectLogits, type Case } from './real-model.ts';
import { shared } from './shared.ts';
import { smollm2File } from './smollm2-file.ts';

interface Reference {
  readonly sha256: string;
  readonly chat: Case & { readonly question: string; readonly prompt: string };
  readonly prose: Case & { readonly file: string; readonly start: number; readonly length: number };
}

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

  test.each(cases)('logits of the %s prompt, whole and in blocks', async (_, reference, block) => {
    for (const size of [reference.ids.length, block]) await expectLogits(model, reference, size);
  });

  test.each(cases)('the greedy answer to the %s prompt, as tokens and as text', async (name, reference) =>
    expectAnswer(model, reference, prompt[name]),
  );
});
