import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { cpuRuntime, loadModel, type HostModel } from '../src/index.ts';
import { fixtureJson } from '@kv/model-testing/fixture';
import { expectOffsets } from '@kv/model-testing/offsets';
import { expectAnswer, expectLogits, type Case } from './real-model.ts';
import { excerpt } from '@kv/model-testing/reference';
import { gemma3File } from '@kv/model-testing/smollm2-file';

/** A part of a book, with its encoding by the model's own tokenizer.json. */
interface Excerpt {
  readonly file: string;
  readonly start: number;
  readonly length: number;
}
interface Encoded {
  readonly ids: readonly number[];
  /** Offsets in pairs of UTF-16 units. */
  readonly offsets: readonly number[];
}
interface Reference {
  readonly sha256: string;
  readonly prose: Case & Excerpt;
  readonly texts: readonly (Encoded & { readonly text: string })[];
  readonly excerpts: readonly (Encoded & Excerpt)[];
}

const path = gemma3File('logits, answers and ids of Gemma 3');

/** Generous, since the file is large and the machine may be slow. */
const timeout = 900_000;

describe.skipIf(path === undefined)('Gemma 3 270M, Q4_K_M, products in f32', { timeout }, () => {
  const { sha256, prose, texts, excerpts } = fixtureJson<Reference>('gemma3-270m.json');
  const read = ({ file, start, length }: Excerpt): string => excerpt(file, start, length);
  let model: HostModel;
  beforeAll(async () => {
    model = await loadModel(path!, { runtime: cpuRuntime({ exact: true }) }); // the suite is skipped without the file
  }, timeout);
  afterAll(() => model.destroy());

  test('is the file that the reference read, and its prompt passes the sliding window', () => {
    expect(createHash('sha256').update(readFileSync(path!)).digest('hex')).toBe(sha256);
    expect(prose.ids.length).toBeGreaterThan(Math.min(...model.config.attention.windows));
  });

  test('ids and offsets of hard texts and of prose are those of its tokenizer.json', () => {
    for (const { text, ids, offsets } of [
      ...texts,
      ...excerpts.map((excerpt) => ({ ...excerpt, text: read(excerpt) })),
    ]) {
      expect(model.tokenizer.encode(text).ids, text).toEqual(ids);
      expectOffsets(model.tokenizer, text, offsets);
    }
    expect(model.tokenizer.encode(read(prose)).ids).toEqual(prose.ids);
  });

  test('logits, whole and in blocks', async () => {
    for (const block of [prose.ids.length, 100]) await expectLogits(model, prose, block);
  });

  test('the greedy answer, as tokens and as text', () => expectAnswer(model, prose, read(prose)));
});
