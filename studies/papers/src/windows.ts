import { KvError } from '@kv/core';
import type { Tokenizer } from '@kv/models';
import type { PaperBench } from './tried.ts';
import type { Plan } from './types.ts';

/** The part of the book that development may read; the plans' own prompts take the rest, or a part of it. */
const DEVELOPMENT = [0, 0.3] as const,
  REST = [0.3, 1] as const;

/** Returns the part of a text that prompts of this seed take their windows from, as ids. */
export function proseOf(
  text: string,
  tokenizer: Pick<Tokenizer, 'encode'>,
  plan: Pick<Plan, 'seed' | 'prose'>,
  seed: number,
): readonly number[] {
  const words = text.replace(/\s+/g, ' ').trim(),
    place = (share: number): number =>
      share === 0 || share === 1 ? share * words.length : words.indexOf(' ', share * words.length);
  const [from, to] = seed === plan.seed ? (plan.prose ?? REST) : DEVELOPMENT;
  return tokenizer.encode(words.slice(place(from), place(to)), { special: false }).ids;
}

/**
 * Returns a window of exactly `tokens` tokens, disjoint from those of other trials; it begins with the tokens that
 * begin a document. @throws KvError if the text has no more
 */
export function windowOf(
  { model, prose }: Pick<PaperBench, 'model' | 'prose'>,
  tokens: number,
  trial: number,
): readonly number[] {
  const start = model.tokenizer.encode('').ids,
    size = tokens - start.length,
    there = Math.floor(prose.length / size);
  if (trial >= there)
    throw new KvError('n', `expected at most ${there} windows of ${tokens} tokens in the text, got ${trial + 1}`);
  return [...start, ...prose.slice(trial * size, (trial + 1) * size)];
}
