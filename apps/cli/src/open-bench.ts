import type { Bench } from '@kv/evaluation';
import { loadModel } from '@kv/models';
import { openRuntime } from './engine.ts';
import type { EngineChoice } from './engine.ts';
import { catalogueWith } from './policy/installed.ts';
import { registryFor } from './policy/resolve-policy.ts';

/** Data of every worker: `path` is the argument of `loadModel`, `threads` one worker's share. */
export interface WorkerData {
  readonly path: string;
  readonly cwd: string;
  readonly engine: EngineChoice;
  readonly threads: number;
  /** If policy texts come from elsewhere: the packages whose pieces they may name in addition to the catalogue. */
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
