import { KvError } from '@kv/core';

/** Steps and characters that any text may take, and those that each of its characters adds. */
const STEPS = { base: 2 ** 20, each: 2 ** 10 } as const;
const LENGTH = { base: 2 ** 10, each: 32 } as const;

/** Steps between two pauses: a few milliseconds. */
const PAUSE = 2 ** 17;

/**
 * Work budget of one text: counted, not timed, so that the same file and text behave the same on every machine, and
 * derived from the text alone, so that no file can lift it.
 */
export class WorkLimit {
  readonly #where: string;
  readonly #length: number;
  #left: number;
  #since = 0;

  /** Budget of a text of `length` UTF-16 code units. `where` is named in errors. */
  constructor(where: string, length: number) {
    this.#where = where;
    this.#length = length;
    this.#left = STEPS.base + STEPS.each * length;
  }

  /** Counts steps. @throws KvError once the budget is spent */
  spend(steps: number): void {
    this.#left -= steps;
    this.#since += steps;
    if (this.#left < 0)
      throw new KvError(
        this.#where,
        `expected a tokenizer that takes at most ${STEPS.base + STEPS.each * this.#length} steps for a text of ${this.#length} characters, got more`,
      );
  }

  /** Whether to pause now; reading true schedules the next pause. */
  get due(): boolean {
    if (this.#since < PAUSE) return false;
    this.#since = 0;
    return true;
  }

  /** Checks the length that a text has grown to. @throws KvError if it is out of proportion */
  grown(length: number): void {
    const most = LENGTH.base + LENGTH.each * this.#length;
    if (length > most)
      throw new KvError(
        this.#where,
        `expected a normalizer that makes at most ${most} characters of ${this.#length}, got ${length}`,
      );
  }
}
