/**
 * An error that the user can act on: `at` names the piece, file or option; the message says what was expected and what
 * came, on one line whatever it quotes.
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
