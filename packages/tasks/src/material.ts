import type { Encode } from './haystack.ts';
import type { Problem } from './problem.ts';
import type { Random } from './random.ts';

/** What a generator makes a problem from. */
export interface Material {
  readonly encode: Encode;
  /** Of a text, from `sentencesOf`. */
  readonly sentences: readonly string[];
  /** Most tokens of context, question and answer together. */
  readonly tokens: number;
  readonly draw: Random;
  /** From 0; what turns with problems turns with it. */
  readonly trial: number;
}
/** A problem that has no id yet. */
export type NewProblem = Omit<Problem, 'id'>;
