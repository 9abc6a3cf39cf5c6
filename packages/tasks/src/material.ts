import type { Encode } from './haystack.ts';
import type { Problem } from './problem.ts';
import type { Random } from './random.ts';

/** Input of a problem generator. */
export interface Material {
  readonly encode: Encode;
  /** Sentences of a text, from `sentencesOf`. */
  readonly sentences: readonly string[];
  /** Maximum tokens of context, question and answer together. */
  readonly tokens: number;
  readonly draw: Random;
  /** Index of the problem, or of its document where several problems ask about one, from 0; selects what alternates. */
  readonly trial: number;
  /** Index of the problem among those of its document, from 0. */
  readonly part: number;
}
/** A problem without an id. */
export type NewProblem = Omit<Problem, 'id'>;
