import { KvError } from '@kv/core';

/** Steps and characters that any text may take, and those that each of its characters adds. */
const STEPS = { base: 2 ** 20, each: 2 ** 10 } as const;
const LENGTH = { base: 2 ** 10, each: 32 } as const;

/** Steps between two pauses: a few milliseconds. */
const PAUSE = 2 ** 17;

/**
 * What one text may cost: counted, not timed, so that the same file and text end the same way on every machine, and set
 * by the text alone, so that no file can lift it.
 */
export class WorkLimit {
  readonly #where: string;
  readonly #length: number;
  #left: number;
  #since = 0;

  /** For a text of `length` UTF-16 code units. Errors are about `where`. */
  constructor(where: string, length: number) {
    this.#where = where;
    this.#length = length;
    this.#left = STEPS.base + STEPS.each * length;
  }

  /** Counts steps. @throws KvError once they are more than the text may take. */
  spend(steps: number): void {
    this.#left -= steps;
    this.#since += steps;
    if (this.#left < 0)
      throw new KvError(
        this.#where,
        `expected a tokenizer that takes at most ${STEPS.base + STEPS.each * this.#length} steps for a text of ${this.#length} characters, got more`,
      );
  }

  /** Whether it is time for a pause; where it is, the next one is as far away again. */
  get due(): boolean {
    if (this.#since < PAUSE) return false;
    this.#since = 0;
    return true;
  }

  /** Checks how long the text has become. @throws KvError if that is out of all proportion. */
  grown(length: number): void {
    const most = LENGTH.base + LENGTH.each * this.#length;
    if (length > most)
      throw new KvError(
        this.#where,
        `expected a normalizer that makes at most ${most} characters of ${this.#length}, got ${length}`,
      );
  }
}
