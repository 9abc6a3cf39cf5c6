import { availableParallelism } from 'node:os';
import { relative, resolve } from 'node:path';
import { count } from '@kv/core';
import type { Option } from '@kv/core';
import { runExperiment, threads } from '@kv/evaluation';
import type { Experiment, PolicyNaming, OwnWork, RunOptions, Subject, ExperimentWork } from '@kv/evaluation';
import { openCheckpoint, sidecarFile } from '@kv/checkpoints';
import type { Checkpoint } from '@kv/checkpoints';
import type { Command } from 'commander';
import { openRuntime } from './engine.ts';
import type { EngineChoice } from './engine.ts';
import { checkpointPath, resolveModel } from './model-source.ts';
import type { WorkerData } from './open-bench.ts';
import { policyCode } from './policy/policy-code.ts';
import { registryFor } from './policy/resolve-policy.ts';
import { startProgress } from './progress.ts';
import type { Terminal } from './terminal.ts';
import { weightsDigest } from './weights-digest.ts';

/** The option `--workers`. */
export const workersOption: Option<number> = count(
  Math.min(8, availableParallelism()),
  'threads',
  'Threads, each with its own model (on a GPU 1 unless given).',
  { most: 64 },
);

/** The engine and workers of an experiment. */
export interface Machine {
  readonly engine: EngineChoice;
  readonly workers: number;
}

/**
 * Returns the machine of a command. On a GPU there is one worker, since several would share it, each with its own
 * weights.
 */
export const machineOf = (command: Command, engine: EngineChoice): Machine => ({
  engine,
  workers:
    engine === 'webgpu' && command.getOptionValueSource('workers') !== 'cli'
      ? 1
      : command.opts<{ workers: number }>().workers,
});

/** A model under test, and the argument of `loadModel` for it. */
interface Found {
  readonly path: string;
  readonly subject: Subject;
  readonly chatTemplate: Checkpoint['chatTemplate'];
}

/** Opens the model of `--model` without weights, which only workers need: headers, configuration and tokenizer. */
export async function subjectOf(name: string, { engine }: Machine, terminal: Terminal): Promise<Found> {
  const path = await resolveModel(name, terminal),
    { config, tokenizer, chatTemplate, close } = await openCheckpoint(checkpointPath(path), {
      signal: terminal.signal,
    }),
    runtime = await openRuntime(engine, terminal.cwd, 1);
  await close();
  runtime.close();
  const sidecar = (file: string): Promise<Uint8Array | undefined> => sidecarFile(path, file);
  return {
    path,
    chatTemplate,
    subject: { name, engine: runtime.name, fingerprint: await weightsDigest(path), config, tokenizer, sidecar },
  };
}

/**
 * Returns how a command parses policies: installed pieces, the modules that texts name, and the code that runs them.
 */
export const namingOf = ({ cwd }: Terminal, { engine }: Machine): Required<PolicyNaming> => ({
  names: (calls) => registryFor(calls, cwd),
  code: (policies) => policyCode(policies, cwd, engine),
});

/** The result of an experiment, and the path of its results. */
export interface ExperimentResult<T> {
  readonly result: T;
  readonly path: string;
  /** Duration of this run; undefined if all results were stored already. */
  readonly seconds: number | undefined;
}

/** Runners of jobs, and their number. */
export type JobRunner<J, R, W extends ExperimentWork = OwnWork> = Pick<RunOptions<J, R, W>, 'start' | 'size'>;

/** The program of each thread; in the bundle this module is dist/bin.js. */
const WORKER = new URL(import.meta.url.endsWith('.ts') ? './worker.ts' : './worker.js', import.meta.url);

/** Runs jobs in threads of this machine, each with its own model; `path` is the argument of `loadModel`. */
export function here(
  { path, cwd, pieces }: Pick<WorkerData, 'path' | 'cwd' | 'pieces'>,
  { engine, workers }: Machine,
  program = WORKER,
): { readonly start: ReturnType<typeof threads>; readonly size: number } {
  const share = Math.max(1, Math.floor(availableParallelism() / workers)),
    data: WorkerData = { path, cwd, engine, threads: share, ...(pieces && { pieces }) };
  return { start: threads(program, data), size: workers };
}

/**
 * Runs an experiment, with results in `.kv`. `quiet`: does not mention existing results. `stored: false`: stores
 * nothing. `damaged`: files whose damage was reported before, to which this one's is added. Undefined after Ctrl-C,
 * which is reported.
 */
export async function run<J, R, T, W extends ExperimentWork = OwnWork>(
  experiment: Experiment<J, R, T, W>,
  running: JobRunner<J, R, W>,
  fresh: true | undefined,
  { cwd, stderr, signal }: Terminal,
  { quiet = false, stored = true, damaged = new Set<string>() } = {},
): Promise<ExperimentResult<T> | undefined> {
  const what = experiment.work.kind,
    started = performance.now();
  let file = '',
    total = 0,
    done = 0,
    found = 0,
    progress: ReturnType<typeof startProgress> | undefined;
  const result = await runExperiment(experiment, {
    ...running,
    ...(stored && { folder: resolve(cwd, '.kv') }),
    fresh,
    signal,
    onWait(path) {
      stderr.write(`${what}: another run holds ${relative(cwd, path)}: waits until it is done\n`);
    },
    onStart(jobs) {
      ({ total, done } = jobs);
      found = done;
      file = jobs.path;
      const known = relative(cwd, file);
      if (jobs.damaged > 0 && done < total && !damaged.has(file)) {
        stderr.write(
          `${what}: ${known}: ${jobs.damaged} damaged ${jobs.damaged === 1 ? 'line' : 'lines'} could not be read: what is missing is run again\n`,
        );
        damaged.add(file);
      }
      if (quiet) {
        // one of several runs on one file
      } else if (done === total && total > 0)
        stderr.write(`${what}: all results are in ${known}; --fresh measures again\n`);
      else if (done > 0) stderr.write(`${what}: continues ${known}\n`);
      if (done < total) progress = startProgress(what, stderr, total, done);
    },
    onResult() {
      done++;
      progress?.step();
    },
  }).finally(() => progress?.stop());
  if (signal.aborted || result === undefined) {
    stderr.write(
      `${what}: stopped after ${done} of ${total} jobs${stored && file !== '' ? `, which are in ${relative(cwd, file)}; the same command continues` : ''}\n`,
    );
    return undefined;
  }
  return { result, path: file, seconds: done > found ? (performance.now() - started) / 1000 : undefined };
}
