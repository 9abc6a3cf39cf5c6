import type { Tokenizer } from '@kv/models';

/** A token and its natural log-probability under the model, before every step of sampling. */
export interface Likelihood {
  readonly id: number;
  readonly logprob: number;
  /** The most likely ids with theirs, most likely first. */
  readonly top: readonly { readonly id: number; readonly logprob: number }[];
}

/**
 * Returns the log-probability of `id` under logits `[vocab]`, and the `count` most likely ids; ties go to the lower id.
 */
export function likelihood(logits: Float32Array, id: number, count: number): Likelihood {
  let max = -Infinity;
  for (const x of logits) if (x > max) max = x;
  let sum = 0;
  for (const x of logits) sum += Math.exp(x - max);
  const total = max + Math.log(sum),
    top: number[] = [];
  for (let i = 0; count > 0 && i < logits.length; i++) {
    if (top.length === count && logits[i] <= logits[top[count - 1]]) continue;
    let at = top.length;
    while (at > 0 && logits[top[at - 1]] < logits[i]) at--;
    top.splice(at, 0, i);
    if (top.length > count) top.pop();
  }
  const of = (each: number): number => logits[each] - total;
  return { id, logprob: of(id), top: top.map((each) => ({ id: each, logprob: of(each) })) };
}

/** Returns the text of a token, or its bytes where they are not whole characters. */
export function tokenText(tokenizer: Tokenizer, id: number): string {
  const bytes = tokenizer.bytesOf(id);
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    return `bytes:${[...bytes].map((byte) => `\\x${byte.toString(16).padStart(2, '0')}`).join('')}`;
  }
}

/** The `logprobs` object of a completion. */
export interface CompletionLogprobs {
  readonly tokens: readonly string[];
  readonly token_logprobs: readonly (number | null)[];
  readonly top_logprobs: readonly (Readonly<Record<string, number>> | null)[];
  readonly text_offset: readonly number[];
}

/** A token with the offset of its text and, except for the first of a prompt, its log-probability. */
export interface ScoredToken {
  readonly id: number;
  readonly offset: number;
  readonly likelihood?: Likelihood | undefined;
}

/** Scores the prompt tokens that follow each row of a part beginning at `from`. */
export function promptScores(
  ids: readonly number[],
  from: number,
  rows: readonly Float32Array[],
  count: number,
): readonly ScoredToken[] {
  const scored: ScoredToken[] = from === 0 ? [{ id: ids[0], offset: 0 }] : [];
  for (const [i, row] of rows.slice(0, ids.length - 1 - from).entries()) {
    const id = ids[from + i + 1];
    scored.push({ id, offset: 0, likelihood: likelihood(row, id, count) });
  }
  return scored;
}

export const completionLogprobs = (tokenizer: Tokenizer, scored: readonly ScoredToken[]): CompletionLogprobs => ({
  tokens: scored.map(({ id }) => tokenText(tokenizer, id)),
  token_logprobs: scored.map(({ likelihood: of }) => of?.logprob ?? null),
  top_logprobs: scored.map(({ id, likelihood: of }) => {
    if (!of) return null;
    const all = of.top.some((each) => each.id === id) || of.top.length === 0 ? of.top : [...of.top, of];
    return Object.fromEntries(all.map((each) => [tokenText(tokenizer, each.id), each.logprob]));
  }),
  text_offset: scored.map(({ offset }) => offset),
});

/** Returns the `logprobs` object of a chat completion. */
export const chatLogprobs = (
  tokenizer: Tokenizer,
  scored: readonly ScoredToken[],
): { readonly content: readonly object[]; readonly refusal: null } => {
  const one = ({ id, logprob }: { readonly id: number; readonly logprob: number }): object => ({
    token: tokenText(tokenizer, id),
    logprob,
    bytes: [...tokenizer.bytesOf(id)],
  });
  return {
    content: scored.flatMap(({ likelihood: of }) => (of ? [{ ...one(of), top_logprobs: of.top.map(one) }] : [])),
    refusal: null,
  };
};
