import { cellExperiment } from '@kv/evaluation';
import type { CellOptions, CellResult, Naming } from '@kv/evaluation';
import type { Command } from 'commander';
import { deviceOption } from './device.ts';
import { chooseEngine, engineOption } from './engine.ts';
import { machineOf, namingOf, run, subjectOf, workersOption } from './experiment.ts';
import type { Terminal } from './terminal.ts';

type Found = Awaited<ReturnType<typeof subjectOf>>;
/** What runs the cells of a command. */
interface CellBench {
  readonly naming: Naming;
  subject(model: string): Promise<Found>;
  /** @throws Error where Ctrl-C came first, which has been said */
  answers(found: Found, options: Omit<CellOptions, 'name'>): Promise<readonly CellResult[]>;
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
    async answers({ path, subject }, options) {
      const experiment = await cellExperiment(subject, { name: 'cells', ...options }, naming),
        ran = await run(experiment, path, machine, undefined, terminal, true);
      if (!ran) throw new Error('stopped');
      return ran.result;
    },
  };
}
