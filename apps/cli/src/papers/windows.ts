import { KvError } from '@kv/core';
import type { Tokenizer } from '@kv/models';
import type { Bench } from './trial.ts';

/** Share of the book that development may read; the plan's own prompts take the rest. */
const DEVELOPMENT = 0.3;

/** The part of a text that prompts of this kind may take their windows from, as ids. */
export function proseOf(text: string, tokenizer: Tokenizer, confirm: boolean): readonly number[] {
  const words = text.replace(/\s+/g, ' ').trim(), at = words.indexOf(' ', DEVELOPMENT * words.length);
  return tokenizer.encode(confirm ? words.slice(at) : words.slice(0, at), { special: false }).ids;
}

/** A window of exactly `tokens` tokens, disjoint from those of other trials; what stands at the start of a document comes first. @throws KvError where the text has no more */
export function windowOf({ model, prose }: Pick<Bench, 'model' | 'prose'>, tokens: number, trial: number): readonly number[] {
  const start = model.tokenizer.encode('').ids, size = tokens - start.length, there = Math.floor(prose.length / size);
  if (trial >= there) throw new KvError('--n', `expected at most ${there} windows of ${tokens} tokens in the text, got ${trial + 1}`);
  return [...start, ...prose.slice(trial * size, (trial + 1) * size)];
}
