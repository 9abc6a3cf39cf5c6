import { cellExperiment } from '@kv/evaluation';
import type { CellOptions, CellResult, Naming } from '@kv/evaluation';
import type { Command } from 'commander';
import { deviceOption } from './device.ts';
import { chooseEngine, engineOption } from './engine.ts';
import { machineOf, namingOf, run, subjectOf, workersOption } from './experiment.ts';
import type { Ran } from './experiment.ts';
import type { Terminal } from './terminal.ts';

type Found = Awaited<ReturnType<typeof subjectOf>>;
/** What runs the cells of a command. */
interface CellBench {
  readonly naming: Naming;
  subject(model: string): Promise<Found>;
  /** @throws Error where Ctrl-C came first, which has been said */
  answers(found: Found, options: Omit<CellOptions, 'name'>): Promise<readonly CellResult[]>;
  /** Seconds that cells take; their results go nowhere. @throws Error where Ctrl-C came first, which has been said */
  seconds(found: Found, options: Omit<CellOptions, 'name'>): Promise<number>;
}

/** A command with the options of what its cells run on. */
export const onMachine = (command: Command): Command =>
  command
    .option(...engineOption('exact'))
    .option(...deviceOption)
    .option(...workersOption);

/** What a command's options choose; all its runs share files of cells in `.kv`. */
export async function cellBench(command: Command, terminal: Terminal): Promise<CellBench> {
  const machine = machineOf(command, await chooseEngine(command, terminal.cwd, false)),
    naming = namingOf(terminal);
  return {
    naming,
    subject: (model) => subjectOf(model, machine, terminal),
    answers: async (found, options) => (await ran(found, options, true)).result,
    seconds: async (found, options) => (await ran(found, options, false)).seconds ?? 0,
  };

  async function ran(
    { path, subject }: Found,
    options: Omit<CellOptions, 'name'>,
    stored: boolean,
  ): Promise<Ran<readonly CellResult[]>> {
    const experiment = await cellExperiment(subject, { name: 'cells', ...options }, naming),
      came = await run(experiment, path, machine, undefined, terminal, { quiet: true, stored });
    if (!came) throw new Error('stopped');
    return came;
  }
}
