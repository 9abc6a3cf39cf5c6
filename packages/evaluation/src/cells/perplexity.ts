import { compile } from '@kv/core/engine';
import type { Policy } from '@kv/core';
import type { Sequence } from '@kv/models';
import type { Encode, Problem } from '@kv/tasks';
import { mean } from '../numbers.ts';
import { surprise } from '../log-likelihood.ts';
import { rowsAlong, slotsNow } from '../sequences.ts';
import type { CellResult } from './types.ts';

/** Whether a problem's answer is scored for perplexity instead of generated. */
export const isRead = ({ grader }: Pick<Problem, 'grader'>): boolean => grader === 'perplexity';

/** Returns the mean cost per token of a text that was read, in nats. */
export const natsOf = ({ answer }: Pick<CellResult, 'answer'>): number => Number(answer);

/**
 * Tokenizes a problem: what fills the cache, and what is read after it. Both are tokenized as one text, and split at a
 * token boundary.
 */
export function readIds(
  { context, question, answers }: Pick<Problem, 'context' | 'question' | 'answers'>,
  encode: Encode,
): { readonly ids: readonly number[]; readonly offsets: ReturnType<Encode>['offsets']; readonly from: number } {
  const before = context + question,
    { ids, offsets } = encode(before + (answers[0] ?? '')),
    from = offsets.findIndex(([start, end]) => end > start && start >= before.length);
  return { ids, offsets, from: from < 0 ? ids.length : from };
}

/**
 * Returns the mean -ln p, in nats, of the tokens after the prompt, each predicted from the tokens before it with the
 * cache as it then is. `slots`: slots per layer and KV head after the prompt and after every token but the last, which
 * is not fed.
 */
export async function readPerplexity(
  sequence: Sequence,
  next: readonly number[],
  policy: Policy,
  every: number | undefined,
): Promise<{ readonly nats: number; readonly slots: readonly number[] }> {
  const slots: number[] = [],
    nats: number[] = [];
  for await (const rows of rowsAlong(sequence, next, compile(policy), every)) {
    for (const row of rows) nats.push(surprise(row, next[nats.length]));
    const now = slotsNow(sequence);
    slots.push(...rows.map((_, i) => now - (rows.length - 1 - i)));
  }
  return { nats: mean(nats), slots };
}
