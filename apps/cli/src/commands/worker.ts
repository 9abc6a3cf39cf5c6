import { count, KvError, required, text, texts } from '@kv/core';
import type { ResolvedOptions } from '@kv/core';
import { cellQueue, checkCellJob } from '@kv/evaluation';
import type { CellJob } from '@kv/evaluation';
import { Command } from 'commander';
import { deviceOption } from '../device.ts';
import { cellEngine } from '../cells.ts';
import { engineOption } from '../engine.ts';
import { here, machineOf, subjectOf, workersOption } from '../experiment.ts';
import type { Machine } from '../experiment.ts';
import { withFlags } from '../flags.ts';
import { withExamples } from '../help.ts';
import { MODEL_HELP } from '../model-source.ts';
import { plain } from '../plain.ts';
import { catalogueWith } from '../policy/installed.ts';
import { packagesCode, policyCode } from '../policy/policy-code.ts';
import { queuePackage } from '../queue.ts';
import type { Terminal } from '../terminal.ts';
import { VERSION } from '../version.ts';

/** Flags of `kv worker`. */
export const WORKER = {
  queue: required(text('', 'a url', 'The Redis, such as redis://host:6379; rediss:// is TLS.')),
  model: { ...texts(`A model: ${MODEL_HELP}.`), otherwise: 'embedded' },
  pieces: texts('A package whose pieces cells may name in addition to the catalogue.'),
  engine: engineOption('f32'),
  device: deviceOption,
  workers: workersOption,
  lease: count(30, 'seconds', 'After how long the cells of a worker that is gone are given to another.', {
    most: 3600,
  }),
};
type Flags = ResolvedOptions<typeof WORKER>;

/**
 * `kv worker`: one of the machines that answer the cells of a queue. Calls `onStop` when a signal stops it as intended.
 */
export const workerCommand = (terminal: Terminal, onStop: () => void): Command =>
  withExamples(
    withFlags(new Command('worker'), WORKER)
      .description("Answer cells of 'kv eval --queue' from a Redis, until a signal.")
      .action(async (flags: Flags, command: Command) => {
        const machine = machineOf(command, await cellEngine(command, terminal.cwd)),
          gone = new AbortController(),
          signal = AbortSignal.any([terminal.signal, gone.signal]);
        await Promise.all(
          (flags.model ?? ['embedded']).map((model) =>
            answer(model, flags, machine, { ...terminal, signal }).catch((error: unknown) => {
              gone.abort(); // the others end too
              throw error;
            }),
          ),
        );
        onStop();
      }),
    ['kv worker --queue redis://10.0.0.1:6379 --model model.gguf', 'as often as there are machines'],
    ['kv eval sweep.json --queue redis://10.0.0.1:6379', 'asks them, and keeps what comes once'],
  );

/** Answers the cells of one model until the signal aborts. */
async function answer(
  model: string,
  { queue: url, pieces = [], lease }: Flags,
  machine: Machine,
  terminal: Terminal,
): Promise<void> {
  const { cwd, stderr, signal } = terminal,
    { work } = await queuePackage(cwd),
    known = await catalogueWith(pieces, cwd),
    { path, subject } = await subjectOf(model, machine, terminal),
    { start, size } = here({ path, cwd, pieces }, machine);
  // read at the start: a build during the run is other code
  packagesCode(new Set([...known.values()].flatMap((held) => held.map((entry) => entry.package))), cwd, machine.engine);
  type Runner = ReturnType<typeof begin>;
  const begin = () => start<CellJob, object>({ kind: 'cell jobs' }),
    free: Runner[] = [],
    all = new Set<Runner>();
  let done = 0;
  const stop = (runner: Runner): Promise<unknown> => {
    all.delete(runner);
    return runner.stop();
  };
  const run = async (data: unknown): Promise<object> => {
    const job = await checkCellJob(data, subject, (texts) => policyCode(texts, cwd, machine.engine, () => known)),
      runner = free.pop() ?? begin();
    all.add(runner);
    try {
      const result = await runner.run(job);
      done++;
      free.push(runner);
      return result;
    } catch (error) {
      if (KvError.is(error)) free.push(runner);
      else void stop(runner); // a thread that broke
      throw error;
    }
  };
  const telling = async (data: unknown): Promise<object> =>
    run(data).catch((error: unknown) => {
      if (!signal.aborted)
        stderr.write(`worker: refused: ${plain(error instanceof Error ? error.message : String(error))}\n`);
      throw error;
    });
  const onReady = (): void =>
    void stderr.write(`worker: takes cells of ${plain(model)} on ${subject.engine}, ${size} at once; Ctrl-C ends\n`);
  try {
    await work({ url, name: cellQueue(subject, VERSION), concurrency: size, lease, run: telling, signal, onReady });
    stderr.write(`worker: answered ${done} cells of ${plain(model)}\n`);
  } finally {
    await Promise.all([...all].map(stop));
  }
}
