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
  const queue = [...jobs];
  const runners = Array.from({ length: Math.min(size, jobs.length) }, start);
  const over = new AbortController(),
    aborted = new Promise<'aborted'>((resolve) =>
      signal.aborted
        ? resolve('aborted')
        : signal.addEventListener('abort', () => resolve('aborted'), { once: true, signal: over.signal }),
    );
  let failed = false;
  try {
    await Promise.all(
      runners.map(async (runner) => {
        for (let job = queue.shift(); job && !failed && !signal.aborted; job = queue.shift()) {
          const running = runner.run(job);
          running.catch(() => {
            failed = true;
          });
          const result = await Promise.race([running, aborted]);
          if (result === 'aborted') return;
          onResult(result);
        }
      }),
    );
  } finally {
    over.abort();
    await Promise.all(runners.map((runner) => runner.stop()));
  }
}
