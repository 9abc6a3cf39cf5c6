import type { Bench } from '@kv/evaluation';
import { loadModel } from '@kv/models';
import { openRuntime } from './engine.ts';
import type { EngineChoice } from './engine.ts';
import { catalogueWith } from './policy/installed.ts';
import { registryFor } from './policy/resolve-policy.ts';

/** What every worker is handed: `path` is what `loadModel` takes; `threads` are one worker's share. */
export interface WorkerData {
  readonly path: string;
  readonly cwd: string;
  readonly engine: EngineChoice;
  readonly threads: number;
  /** Where texts of policies come from elsewhere: all that they may name in addition to the catalogue. */
  readonly pieces?: readonly string[];
}

/** Loads a worker's model. */
export async function openBench({ path, cwd, engine, threads, pieces }: WorkerData): Promise<Bench> {
  const known = pieces && (await catalogueWith(pieces, cwd));
  return {
    model: await loadModel(path, { runtime: await openRuntime(engine, cwd, threads) }),
    names: (calls) => known ?? registryFor(calls, cwd),
  };
}
