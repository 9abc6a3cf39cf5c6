import type { GraderName } from './graders.ts';

/** One question about one text, with its right answers. */
export interface Problem {
  /** Id, unique within its task. */
  readonly id: string;
  /** Id of the document, where several problems ask about one: their samples form a cluster. @defaultValue the id */
  readonly document?: string;
  /** Text that fills the cache; may be empty. */
  readonly context: string;
  /** Question after the context: part of the prompt when the cache is cut, or asked after that. */
  readonly question: string;
  /** Right answers; what a grader does with several is its own. */
  readonly answers: readonly string[];
  /** How answers are graded. */
  readonly grader: GraderName;
  /** Maximum length of the answer, in tokens. */
  readonly maxNewTokens: number;
  /** Strings that end the answer. */
  readonly stop?: readonly string[];
  /** Every class of a classification task. */
  readonly classes?: readonly string[];
}
