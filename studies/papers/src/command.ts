import { basename, join, relative, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { checkWritable, writeWhole } from '@kv/evaluation';
import { Command } from 'commander';
import { colors as pc } from '../../../apps/cli/src/colors.ts';
import { fitColumns, reflow } from '../../../apps/cli/src/columns.ts';
import { deviceOption } from '../../../apps/cli/src/device.ts';
import { chooseEngine, engineOption } from '../../../apps/cli/src/engine.ts';
import {
  withFlagNames,
  here,
  machineOf,
  namingOf,
  run,
  subjectOf,
  workersOption,
} from '../../../apps/cli/src/experiment.ts';
import { withExamples } from '../../../apps/cli/src/help.ts';
import { MODEL_HELP } from '../../../apps/cli/src/model-source.ts';
import { list, oneOf, whole } from '../../../apps/cli/src/option-values.ts';
import { codeOf } from '../../../apps/cli/src/policy/package-code.ts';
import type { CommandProgram } from '../../../apps/cli/src/program.ts';
import { readText } from '../../../apps/cli/src/run/questions.ts';
import { lineWidth } from '../../../apps/cli/src/terminal.ts';
import type { Terminal } from '../../../apps/cli/src/terminal.ts';
import { outcomeCells, rowText, studyMarkdown } from './markdown.ts';
import { planFor, planNames, planText, usualPlan } from './plans.ts';
import type { PlanName } from './plans.ts';
import { paperStudy, rowsOf } from './study.ts';
import type { Study } from './study.ts';
import { paperNames } from './types.ts';
import type { Paper } from './types.ts';
import type { Verdict } from './verdict.ts';

const SHELL = 'npm run -s study --';
const BUILT = !import.meta.url.endsWith('.ts'),
  /** Folder of the studies package, relative to `dist/bin.js` or this file. */
  STUDIES = fileURLToPath(new URL(BUILT ? '..' : '../..', import.meta.url)),
  WORKER = new URL(BUILT ? './worker.js' : './worker.ts', import.meta.url);

interface Flags {
  readonly model: string;
  readonly plan?: PlanName;
  readonly paper?: readonly Paper[];
  readonly row?: readonly string[];
  readonly n?: number;
  readonly seed?: number;
  readonly text?: string;
  readonly out?: string;
  readonly list?: true;
  readonly json?: true;
  readonly fresh?: true;
}

/** The study `papers`: measures here what each paper promised. */
const papersCommand = (terminal: Terminal): Command => {
  return withExamples(
    new Command('papers')
      .description('Rerun what the papers promised, from plans that were fixed before, and say what held.')
      .option('--model <name>', MODEL_HELP, 'embedded')
      .option(
        '--plan <name>',
        '1 (every row of the papers), 2 (pieces that came after it, on the embedded model), 3 (a checkpoint), 4 (tables of the papers that the first three leave out, on either), 5 (rows of the fourth for a longer text, and causes of what did not hold) (default: 1 on the embedded model, else 3)',
        oneOf('--plan', planNames),
      )
      .option(...engineOption('f32'))
      .option(...deviceOption)
      .option(
        '--paper <list>',
        `only rows of these papers: ${paperNames.join(', ')}`,
        list('--paper', oneOf('--paper', paperNames)),
      )
      .option(
        '--row <list>',
        'only these rows, as --list names them',
        list('--row', (text) => text),
      )
      .option('--n <n>', "prompts of every task (default: the plan's)", whole('--n', { min: 2, max: 10_000 }))
      .option('--seed <n>', "other prompts than the plan's: development", whole('--seed'))
      .option('--text <file>', 'what prose comes from, instead of the opening of a book that is brought along')
      .option(...workersOption)
      .option('--out <folder>', 'write results there, as JSON and as a Markdown table')
      .option('--list', 'print the plan and run nothing')
      .option('--json', 'print what came out as one object, or with --list the whole plan')
      .option('--fresh', 'forget the results of earlier runs on this model and these prompts')
      .action((flags: Flags, command: Command) => withFlagNames(command, () => papers(flags, command))),
    [`${SHELL} papers --list`, 'what each paper promised, and how it is asked'],
    [`${SHELL} papers --row caote-h2o-needle --n 20`, 'one row on few prompts'],
  );

  async function papers(flags: Flags, command: Command): Promise<void> {
    const { cwd, stdout } = terminal,
      width = lineWidth(stdout),
      { model, paper, row, n, seed, text, fresh } = flags,
      usual = usualPlan(model === 'embedded' ? 'embedded' : 'real'),
      name = flags.plan ?? usual,
      plan = planFor(name, model === 'embedded' ? 'embedded' : 'real'),
      asked = { papers: paper, rows: row };
    if (flags.list) {
      const rows = rowsOf(plan, asked).map((one) => `${pc.bold(one.id)}  ${rowText(one, plan.on)}`);
      stdout.write(flags.json ? planText(name) : `${reflow(rows.join('\n\n'), width)}\n`);
      return;
    }
    if (flags.out !== undefined) checkWritable(join(resolve(cwd, flags.out), 'results'), flags.out, { folder: true });
    // observers, saved states and logits are read on the host
    const machine = machineOf(command, await chooseEngine(command, cwd, "'kv papers' looks inside the model")),
      { subject, path } = await subjectOf(model, machine, terminal),
      prose = text === undefined ? undefined : readText(text, cwd),
      { names, code } = namingOf(terminal, machine),
      study = await paperStudy(subject, plan, {
        ...asked,
        n,
        seed,
        text: prose,
        names,
        // packages that run policies, and the study's own code
        code: async (policies) => [...new Set([...(await code(policies)), ...codeOf([STUDIES])])].sort(),
      }),
      ran = await run(study, here({ path, cwd }, machine, WORKER), fresh, terminal);
    if (!ran) return;
    stdout.write(flags.json ? studyJson(ran.result, commandOf(flags)) : `${studyText(ran.result, width)}\n`);
    if (flags.out === undefined) return;
    const files = written(ran.result, commandOf(flags), name === usual ? '' : `-${name}`, resolve(cwd, flags.out));
    (flags.json ? terminal.stderr : stdout).write(`results: ${files.map((file) => relative(cwd, file)).join(', ')}\n`);
  }
};

/** The study as a program. */
export const PAPERS: CommandProgram = {
  shell: SHELL,
  says: 'Studies of KV-cache retention.',
  examples: [],
  commands: [papersCommand],
};

/** Returns the flags on which results depend. */
function commandOf({ model, plan, paper, row, n, seed, text }: Flags): string {
  const flags = {
    model: model === 'embedded' ? undefined : model,
    plan,
    paper,
    row,
    n,
    seed,
    text: text && basename(text),
  };
  return `${SHELL} papers${Object.entries(flags)
    .flatMap(([flag, value]) => (value === undefined ? [] : [` --${flag} ${String(value)}`]))
    .join('')}`;
}

const TINTS: Readonly<Record<Verdict, (text: string) => string>> = {
  held: pc.green,
  not: pc.red,
  undecided: pc.yellow,
};

/** Formats the study for a terminal. */
function studyText({ outcomes, excused, label }: Study, width: number): string {
  const rows = outcomes.map((outcome) => {
    const cells = [outcome.row.id, ...outcomeCells(outcome)];
    return cells.with(-1, TINTS[outcome.verdict](outcome.verdict));
  });
  const lines = fitColumns(
      [['row', 'promise', 'measured: better by', 'n', 'outcome'].map(pc.dim), ...rows],
      new Set([3]),
      width,
    ),
    without = reflow(excused.map(({ id, excuse }) => `${id}: ${excuse}`).join('\n'), width);
  return `${label === undefined ? '' : `${pc.yellow(label)}\n`}${lines}${without === '' ? '' : `\n\n${pc.dim(`not run\n${without}`)}`}`;
}

function studyJson(study: Study, command: string): string {
  const outcomes = study.outcomes.map(({ row, ...outcome }) => ({ row: row.id, ...outcome }));
  return `${JSON.stringify({ command, ...study, outcomes }, undefined, 1)}\n`;
}

/** Writes a study as JSON and as Markdown; `suffix` names a plan other than the usual one. */
function written(study: Study, command: string, suffix: string, folder: string): readonly string[] {
  const name = join(folder, `results-${study.model.replace(/\.\w+$/, '')}${suffix}`);
  writeWhole(`${name}.json`, studyJson(study, command), `${name}.json`);
  writeWhole(`${name}.md`, studyMarkdown(study, command), `${name}.md`);
  return [`${name}.json`, `${name}.md`];
}
