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
