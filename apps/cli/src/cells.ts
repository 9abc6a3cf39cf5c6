import { maybe, text } from '@kv/core';
import { cellExperiment, cellQueue, elsewhere, withTimes } from '@kv/evaluation';
import type { Cell, CellOptions, CellResult, Experiment, PolicyNaming } from '@kv/evaluation';
import type { Command } from 'commander';
import { deviceOption, type Device } from './device.ts';
import { chooseEngine, engineOption, type EngineChoice } from './engine.ts';
import { here, machineOf, namingOf, run, subjectOf, workersOption } from './experiment.ts';
import type { ExperimentResult, JobRunner } from './experiment.ts';
import { checkNoModule } from './policy/resolve-policy.ts';
import { queuePackage } from './queue.ts';
import type { Terminal } from './terminal.ts';
import { VERSION } from './version.ts';

type Found = Awaited<ReturnType<typeof subjectOf>>;
/** Runs the cells of a command. */
interface CellBench {
  readonly naming: Required<PolicyNaming>;
  subject(model: string): Promise<Found>;
  /** Runs the cells and returns their results. @throws Error on Ctrl-C, after reporting it */
  answers(found: Found, options: Omit<CellOptions, 'name'>): Promise<readonly CellResult[]>;
  /**
   * Returns the seconds that each cell takes on this machine, warm and fully loaded; results are not stored. @throws
   * Error on Ctrl-C, after reporting it
   */
  seconds(found: Found, options: Omit<CellOptions, 'name'>): Promise<readonly number[]>;
}
type Cells = Experiment<Cell, CellResult, readonly CellResult[]>;
type Answered = Promise<ExperimentResult<readonly CellResult[]> | undefined>;

/** Maximum cells waiting in Redis, where they take up room with their problems. */
const OUTSTANDING = 1024;

/** Options of the machine that runs cells. */
export const CELL_MACHINE = {
  engine: engineOption('f32'),
  device: deviceOption,
  workers: workersOption,
  queue: maybe(
    text('', 'a url', "A Redis such as redis://host:6379, whose workers ('kv worker') answer instead of this one."),
  ),
};

/**
 * Chooses the engine for cells: `auto` is the CPU, where evictions can be judged; on a GPU, if asked for, those columns
 * are left out.
 */
export const cellEngine = (command: Command, cwd: string): Promise<EngineChoice> =>
  chooseEngine(
    command,
    cwd,
    command.opts<{ device: Device }>().device === 'auto' ? 'evictions are judged on the CPU' : undefined,
  );

/** Opens the bench that a command's options choose; all its runs share files of cells in `.kv`. */
export async function cellBench(command: Command, terminal: Terminal): Promise<CellBench> {
  const machine = machineOf(command, await cellEngine(command, terminal.cwd)),
    { queue: url } = command.opts<{ queue?: string }>(),
    naming = namingOf(terminal, machine),
    damaged = new Set<string>();
  return {
    naming,
    subject: (model) => subjectOf(model, machine, terminal),
    async answers(found, options) {
      const experiment = await cellExperiment(found.subject, { name: 'cells', ...options }, naming),
        on = { quiet: true, damaged };
      return url === undefined
        ? came(run(experiment, runners(found), undefined, terminal, on))
        : came(asked(experiment, url, found, options, naming, terminal, on));
    },
    async seconds(found, options) {
      const on = withTimes<Cell, CellResult>(runners(found));
      const experiment = await cellExperiment(found.subject, { name: 'cells', ...options });
      await came(run(experiment, on, undefined, terminal, { quiet: true, stored: false }));
      return options.cells.map(on.seconds);
    },
  };

  function runners(found: Found): ReturnType<typeof here> {
    return here({ ...found, cwd: terminal.cwd }, machine);
  }
}

async function came(answered: Answered): Promise<readonly CellResult[]> {
  const ran = await answered;
  if (!ran) throw new Error('stopped');
  return ran.result;
}

/** Runs an experiment on the workers of a queue; opens no connection if all results are stored already. */
async function asked(
  experiment: Cells,
  url: string,
  { subject }: Found,
  { policies }: Pick<CellOptions, 'policies'>,
  { code }: Required<PolicyNaming>,
  terminal: Terminal,
  on: { readonly quiet: boolean; readonly damaged: Set<string> },
): Answered {
  for (const policy of policies) await checkNoModule(policy, terminal.cwd);
  const { openQueue } = await queuePackage(terminal.cwd),
    onNoWorker = (): void =>
      void terminal.stderr.write(
        `cells: wait for a worker of kv ${VERSION} with the weights of ${subject.name} on ${subject.engine}: kv worker --queue URL --model MODEL\n`,
      ),
    open = (): ReturnType<typeof openQueue> => openQueue({ url, name: cellQueue(subject, VERSION), onNoWorker });
  let opened: ReturnType<typeof openQueue> | undefined;
  const running: JobRunner<Cell, CellResult> = {
    start: elsewhere(async (job) => (await (opened ??= open())).ask(job), code) as JobRunner<Cell, CellResult>['start'],
    size: OUTSTANDING,
  };
  try {
    return await run(experiment, running, undefined, terminal, on);
  } finally {
    await (await opened?.catch(() => undefined))?.close();
  }
}
