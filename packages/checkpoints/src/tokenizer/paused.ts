/** Work that yields after a bounded number of steps (`WorkLimit.due`), so that other work can run in between. */
export type Pausable<T> = Generator<undefined, T>;

/** Runs work to its end without pausing. */
export function finish<T>(work: Pausable<T>): T {
  for (;;) {
    const { done, value } = work.next();
    if (done === true) return value as T;
  }
}
