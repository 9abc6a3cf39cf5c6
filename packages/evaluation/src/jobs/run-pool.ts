/** Runs jobs one after another. */
export interface Runner<J, R> {
  /** Runs one job. */
  run(job: J): Promise<R>;
  /** Ends the runner. */
  stop(): Promise<unknown>;
}

/**
 * Distributes jobs to `size` runners until none is left or the signal aborts; passes each result to `onResult` as it
 * arrives. @throws what the first failing job throws, after all runners have stopped
 */
export async function runPool<J, R>({
  jobs,
  size,
  start,
  signal,
  onResult,
}: {
  readonly jobs: readonly J[];
  readonly size: number;
  readonly start: () => Runner<J, R>;
  readonly signal: AbortSignal;
  readonly onResult: (result: R) => void;
}): Promise<void> {
  const runners = Array.from({ length: Math.min(size, jobs.length) }, start);
  try {
    await runAll(runners, jobs, { signal, onResult });
  } catch (error) {
    if (!signal.aborted || error !== signal.reason) throw error;
  } finally {
    await Promise.all(runners.map((runner) => runner.stop()));
  }
}

interface RunAllOptions<R> {
  /** Whether no further job is to begin. @defaultValue never */
  readonly isOver?: () => boolean;
  readonly signal: AbortSignal | undefined;
  readonly onResult: (result: R) => void;
}

/**
 * Distributes jobs to runners, which stay, until none is left or time is over; passes on each result as it comes. @throws
 * what the first failing job throws, or the signal's reason
 */
export async function runAll<J, R>(
  runners: readonly Runner<J, R>[],
  jobs: readonly J[],
  { isOver = () => false, signal, onResult }: RunAllOptions<R>,
): Promise<void> {
  signal?.throwIfAborted();
  const queue = [...jobs];
  let failed = false;
  await Promise.all(
    runners.map(async (runner) => {
      for (let job = queue.shift(); job !== undefined && !failed && !isOver(); job = queue.shift()) {
        const running = runner.run(job);
        running.catch(() => {
          failed = true;
        });
        onResult(await unlessAborted(running, signal));
      }
    }),
  );
}

/**
 * Returns a promise's result. Its listener goes with it: to race one promise of the signal for every job would hold
 * their results until the last. @throws the signal's reason once that aborts
 */
const unlessAborted = <R>(running: Promise<R>, signal: AbortSignal | undefined): Promise<R> =>
  new Promise((resolve, reject) => {
    const stop = (): void => reject(signal?.reason);
    if (signal?.aborted) return stop();
    signal?.addEventListener('abort', stop, { once: true });
    running.finally(() => signal?.removeEventListener('abort', stop)).then(resolve, reject);
  });
