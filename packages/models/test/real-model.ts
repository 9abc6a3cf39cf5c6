import { expect } from 'vitest';
import { generate, type HostModel, type Model } from '../src/index.ts';
import { emptyCaches, run } from '@kv/engine-testing/run';

/**
 * Results of transformers in f32 on the dequantised weights of a real checkpoint (tools/reference-models): the largest
 * of the logits, their mean and their norm.
 */
export interface Case {
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
  /** Smallest difference between the two highest logits, over the greedy tokens. */
  readonly leastGap: number;
}

/** Relative to the largest logit; 3.3e-6 was observed. */
const TOLERANCE = 2e-5;

/** Checks the prompt's logits, fed in blocks of `block` tokens. */
export async function expectLogits({ decoder }: HostModel, { ids, logits }: Case, block: number): Promise<void> {
  const rows = await run(decoder, emptyCaches(decoder), ids, { want: logits.map(({ at }) => at), block });
  for (const [i, { at, top, mean, norm }] of logits.entries()) {
    const row = rows[i],
      where = `position ${at} of ${ids.length}, blocks of ${block}`,
      allowed = TOLERANCE * top[0][1];
    for (const [id, logit] of top) expect(Math.abs(row[id] - logit), where).toBeLessThan(allowed);
    expect(Math.abs(row.reduce((sum, logit) => sum + logit, 0) / row.length - mean), where).toBeLessThan(allowed);
    expect(Math.abs(Math.sqrt(row.reduce((sum, logit) => sum + logit * logit, 0)) - norm) / norm, where).toBeLessThan(
      TOLERANCE,
    );
  }
}

/**
 * Checks the greedy answer, as tokens and as text. There is no near-tie: a deviation within `TOLERANCE`
 * cannot change a token.
 */
export async function expectAnswer(
  model: Model,
  { greedy, ended, text, leastGap, logits }: Case,
  prompt: string,
): Promise<void> {
  expect(leastGap).toBeGreaterThan(2 * TOLERANCE * Math.max(...logits.map(({ top }) => top[0][1])));
  const answer = await generate(model, { prompt, maxNewTokens: greedy.length + (ended ? 1 : 0) });
  expect(answer.tokens).toEqual(greedy);
  expect(answer.text).toBe(text);
  expect(answer.report.finish).toBe(ended ? 'eos' : 'length');
}
