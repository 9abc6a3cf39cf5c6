import { KvError } from '@kv/core';
import type { Model } from '@kv/models';
import type { Runner } from '../jobs/run-pool.ts';
import type { RegistryOf } from '../policies.ts';
import { stopping } from '../stopping.ts';
import type { Subject } from '../subject.ts';
import { runText } from './run-text.ts';
import type { ChoiceJob, ChoiceResult, ChoiceWork } from './run-text.ts';

/** Returns what runs jobs in this thread. @throws KvError for a model without weights */
export function inThisThread(
  model: Subject | Model,
  names: RegistryOf | undefined,
): (work: ChoiceWork) => Runner<ChoiceJob, ChoiceResult> {
  if (!('memory' in model))
    throw new KvError('choose', `expected a loaded model, or start, got the files of ${model.name}`);
  return (work) => {
    const stop = new AbortController(),
      bench = stopping({ model, names }, stop.signal);
    return {
      run: (job) => runText(bench, work, job),
      stop: async () => stop.abort(),
    };
  };
}

interface RunAllOptions<R> {
  /** Whether no further job is to begin. */
  readonly isOver: () => boolean;
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
  { isOver, signal, onResult }: RunAllOptions<R>,
): Promise<void> {
  signal?.throwIfAborted();
  const queue = [...jobs],
    over = new AbortController(),
    aborted = new Promise<never>((_, reject) =>
      signal?.addEventListener('abort', () => reject(signal.reason), { once: true, signal: over.signal }),
    );
  aborted.catch(() => {}); // reported where it is awaited
  let failed = false;
  try {
    await Promise.all(
      runners.map(async (runner) => {
        for (let job = queue.shift(); job !== undefined && !failed && !isOver(); job = queue.shift()) {
          const running = runner.run(job);
          running.catch(() => {
            failed = true;
          });
          onResult(await Promise.race([running, aborted]));
        }
      }),
    );
  } finally {
    over.abort();
  }
}
