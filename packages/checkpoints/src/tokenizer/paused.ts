/**
 * Work that stops wherever it has gone on for a bounded number of steps (`Work.due`), so that other things may be done
 * before it is gone on with.
 */
export type Pausable<T> = Generator<undefined, T>;

/** The end of a work, without a pause. */
export function finish<T>(work: Pausable<T>): T {
  for (;;) {
    const { done, value } = work.next();
    if (done === true) return value as T;
  }
}
