import type { GraderName } from './graders.ts';

/** One question about one text, with what a right answer says. */
export interface Problem {
  /** Unique within its task; the problem is the cluster of its samples. */
  readonly id: string;
  /** What a cache is filled with; may be empty. */
  readonly context: string;
  /** Stands after the context: in the prompt when the cache is cut, or asked after that. */
  readonly question: string;
  readonly answers: readonly string[];
  readonly grader: GraderName;
  /** The answer's longest length, in tokens. */
  readonly maxNewTokens: number;
  /** Strings that end the answer. */
  readonly stop?: readonly string[];
  /** Of a classification: every class. */
  readonly classes?: readonly string[];
}
