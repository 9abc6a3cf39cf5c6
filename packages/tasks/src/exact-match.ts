/** Where a needle's answer stops: the first full stop or line break. */
export const NEEDLE_STOP: readonly string[] = ['.', '\n'];

/** Allows the longest value with its stop. */
export const NEEDLE_NEW_TOKENS = 12;

/** Whether an answer, up to its stop and trimmed, is the value and nothing else. */
export function exactMatch(answer: string, value: string): boolean {
  const end = answer.search(/[.\n]/);
  return (end < 0 ? answer : answer.slice(0, end)).trim() === value;
}
