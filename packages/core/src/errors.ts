/**
 * An error a person can act on: `at` names the piece, file or option, the message says what was expected and what came,
 * on one line whatever it quotes.
 */
export class KvError extends Error {
  override readonly name = 'KvError';
  readonly at: string;
  constructor(at: string, message: string) {
    super(`${at}: ${message}`.replace(/[\r\n\u2028\u2029]+/g, ' '));
    this.at = at;
  }
  /** Recognised by name, so that two copies of core in one process agree. */
  static is(value: unknown): value is KvError {
    return value instanceof Error && value.name === 'KvError';
  }
}

/**
 * Checks a number option against a predicate and returns it. @throws KvError naming the option, what it must be and
 * what it was.
 */
export function checkNumber(
  at: string,
  field: string,
  value: number,
  want: string,
  ok: (x: number) => boolean,
): number {
  if (typeof value !== 'number' || !ok(value)) throw new KvError(at, `${field} must be ${want}, got ${String(value)}`);
  return value;
}

/** Checks an option against the words it may be and returns it. @throws KvError listing them. */
export function checkWord<const W extends string>(at: string, field: string, value: string, words: readonly W[]): W {
  if (!(words as readonly string[]).includes(value))
    throw new KvError(at, `${field} must be ${words.map((w) => `'${w}'`).join(' or ')}, got '${String(value)}'`);
  return value as W;
}

export const isCount = (x: number): boolean => Number.isInteger(x) && x >= 0;
export const isPositiveInteger = (x: number): boolean => Number.isInteger(x) && x > 0;
