import { exactMatch, NEEDLE_NEW_TOKENS, NEEDLE_STOP } from './exact-match.ts';
import type { QuestionStyle } from './forms.ts';

/** How long a needle's answer may be, where it stops, and when it is right. */
export interface AnswerRule {
  readonly maxNewTokens: number;
  readonly stop: readonly string[];
  right(answer: string, value: string): boolean;
}

/**
 * `cued`: the answer is the value and nothing else. `free`: a model says it in words of its own ("The Sofia code is:
 * XK7M9P2Q"), so it is right if it names the
 * value and the caller stops at the model's end of turn.
 */
export const answerRules: Readonly<Record<QuestionStyle, AnswerRule>> = {
  cued: { maxNewTokens: NEEDLE_NEW_TOKENS, stop: NEEDLE_STOP, right: exactMatch },
  free: { maxNewTokens: 32, stop: [], right: namesValue },
};

/**
 * Whether an answer names the value as a word of its own, not inside a longer one, and names none of the same form
 * before it: a word of its length with a
 * digit in it. An answer that lists many values would be right by a substring alone.
 */
export function namesValue(answer: string, value: string): boolean {
  const words: readonly string[] = answer.match(/[\p{L}\p{N}]+(?:[-_][\p{L}\p{N}]+)*/gu) ?? [],
    at = words.indexOf(value);
  return at >= 0 && words.slice(0, at).every((word) => word.length !== value.length || !/\d/.test(word));
}
