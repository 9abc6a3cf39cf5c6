/** Strings that end a needle's answer: a full stop or line break. */
export const NEEDLE_STOP: readonly string[] = ['.', '\n'];

/** Maximum new tokens of an answer: a value of up to 10 characters with its space and stop; `Needle` has that of others. */
export const NEEDLE_NEW_TOKENS = 12;

/** Returns whether an answer, up to its stop and trimmed, equals the value. */
export function exactMatch(answer: string, value: string): boolean {
  const end = answer.search(/[.\n]/);
  return (end < 0 ? answer : answer.slice(0, end)).trim() === value;
}
