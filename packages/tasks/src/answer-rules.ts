import { exactMatch, NEEDLE_NEW_TOKENS, NEEDLE_STOP } from './exact-match.ts';
import type { QuestionStyle } from './forms.ts';

/** Rules of a needle's answer: its length, its stops, and when it is right. */
export interface AnswerRule {
  /** Longest answer, in tokens. */
  readonly maxNewTokens: number;
  /** Texts that end an answer. */
  readonly stop: readonly string[];
  /** Whether the answer is right. */
  right(answer: string, value: string): boolean;
}

/**
 * Rules by style of question. `cued`: the answer is exactly the value. `free`: the model answers in its own words ("The
 * Sofia code is: XK7M9P2Q"), so the answer is right if it names the value, and the caller stops at the
 * model's end of turn.
 */
export const answerRules: Readonly<Record<QuestionStyle, AnswerRule>> = {
  cued: { maxNewTokens: NEEDLE_NEW_TOKENS, stop: NEEDLE_STOP, right: exactMatch },
  free: { maxNewTokens: 32, stop: [], right: namesValue },
};

/**
 * Returns whether an answer names the value as a whole word and names no other of the same form before it (a word of
 * the same length with a digit in it). A substring test would accept an answer that lists many values.
 */
export function namesValue(answer: string, value: string): boolean {
  // 1,234,567 is a number of seven digits
  const text = /^\d{4,}$/.test(value)
    ? answer.replace(/(?<![\d,])\d{1,3}(?:,\d{3})+(?!\d)/g, (number) => number.replaceAll(',', ''))
    : answer;
  const words: readonly string[] = text.match(/[\p{L}\p{N}]+(?:[-_][\p{L}\p{N}]+)*/gu) ?? [],
    at = words.indexOf(value);
  return at >= 0 && words.slice(0, at).every((word) => word.length !== value.length || !/\d/.test(word));
}
