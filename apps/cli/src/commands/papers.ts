import { basename, join, relative, resolve } from 'node:path';
import {
  checkWritable,
  outcomeCells,
  paperNames,
  paperStudy,
  planFor,
  planNames,
  planText,
  rowsOf,
  rowText,
  studyMarkdown,
  usualPlan,
  writeWhole,
} from '@kv/evaluation';
import type { Paper, PlanName, Study, Verdict } from '@kv/evaluation';
import { Command } from 'commander';
import { colors as pc } from '../colors.ts';
import { fitted, reflowed } from '../columns.ts';
import { deviceOption } from '../device.ts';
import { chooseEngine, engineOption } from '../engine.ts';
import { flagged, here, machineOf, namingOf, run, subjectOf, workersOption } from '../experiment.ts';
import { withExamples } from '../help.ts';
import { MODEL_HELP } from '../model-source.ts';
import { list, oneOf, whole } from '../option-values.ts';
import { readText } from '../run/questions.ts';
import { lineWidth } from '../terminal.ts';
import type { Terminal } from '../terminal.ts';

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

/** `kv papers`: what each paper promised, measured here. */
export const papersCommand = (terminal: Terminal): Command => {
  return withExamples(
    new Command('papers')
      .description('Rerun what the papers promised, from plans that were fixed before, and say what held.')
      .option('--model <name>', MODEL_HELP, 'embedded')
      .option(
        '--plan <name>',
        '1 (every row of the papers), 2 (pieces that came after it, on the embedded model), 3 (a checkpoint), 4 (tables of the papers that the first three leave out, on either), 5 (rows of the fourth for a longer text, and causes of what did not hold) (default: 1 on the embedded model, else 3)',
        oneOf('--plan', planNames),
      )
      .option(...engineOption('exact'))
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
      .option('--text <file>', 'what prose comes from, in the place of the opening of a book that is brought along')
      .option(...workersOption)
      .option('--out <folder>', 'write results there, as JSON and as a Markdown table')
      .option('--list', 'print the plan and run nothing')
      .option('--json', 'print what came out as one object, or with --list the whole plan')
      .option('--fresh', 'forget the results of earlier runs on this model and these prompts')
      .action((flags: Flags, command: Command) => flagged(command, () => papers(flags, command))),
    ['kv papers --list', 'what each paper promised, and how it is asked'],
    ['kv papers --row caote-h2o-needle --n 20', 'one row on few prompts'],
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
      stdout.write(flags.json ? planText(name) : `${reflowed(rows.join('\n\n'), width)}\n`);
      return;
    }
    if (flags.out !== undefined) checkWritable(join(resolve(cwd, flags.out), 'results'), flags.out, { folder: true });
    // observers, saved states and logits are read on the host
    const machine = machineOf(command, await chooseEngine(command, cwd, false)),
      { subject, path } = await subjectOf(model, machine, terminal),
      prose = text === undefined ? undefined : readText(text, cwd),
      study = await paperStudy(subject, plan, { ...asked, n, seed, text: prose, ...namingOf(terminal, machine) }),
      ran = await run(study, here({ path, cwd: terminal.cwd }, machine), fresh, terminal);
    if (!ran) return;
    stdout.write(flags.json ? studyJson(ran.result, commandOf(flags)) : `${studyText(ran.result, width)}\n`);
    if (flags.out === undefined) return;
    const files = written(ran.result, commandOf(flags), name === usual ? '' : `-${name}`, resolve(cwd, flags.out));
    (flags.json ? terminal.stderr : stdout).write(`results: ${files.map((file) => relative(cwd, file)).join(', ')}\n`);
  }
};

/** The flags on which results depend. */
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
  return `kv papers${Object.entries(flags)
    .flatMap(([flag, value]) => (value === undefined ? [] : [` --${flag} ${String(value)}`]))
    .join('')}`;
}

const TINTS: Readonly<Record<Verdict, (text: string) => string>> = {
  held: pc.green,
  not: pc.red,
  undecided: pc.yellow,
};

/** The study for a terminal. */
function studyText({ outcomes, excused, label }: Study, width: number): string {
  const rows = outcomes.map((outcome) => {
    const cells = [outcome.row.id, ...outcomeCells(outcome)];
    return cells.with(-1, TINTS[outcome.verdict](outcome.verdict));
  });
  const lines = fitted(
      [['row', 'promise', 'measured: better by', 'n', 'outcome'].map(pc.dim), ...rows],
      new Set([3]),
      width,
    ),
    without = reflowed(excused.map(({ id, excuse }) => `${id}: ${excuse}`).join('\n'), width);
  return `${label === undefined ? '' : `${pc.yellow(label)}\n`}${lines}${without === '' ? '' : `\n\n${pc.dim(`not run\n${without}`)}`}`;
}

function studyJson(study: Study, command: string): string {
  const outcomes = study.outcomes.map(({ row, ...outcome }) => ({ row: row.id, ...outcome }));
  return `${JSON.stringify({ command, ...study, outcomes }, undefined, 1)}\n`;
}

/** Writes a study as JSON and as Markdown; `suffix` names a plan that is not the usual one. */
function written(study: Study, command: string, suffix: string, folder: string): readonly string[] {
  const name = join(folder, `results-${study.model.replace(/\.\w+$/, '')}${suffix}`);
  writeWhole(`${name}.json`, studyJson(study, command), `${name}.json`);
  writeWhole(`${name}.md`, studyMarkdown(study, command), `${name}.md`);
  return [`${name}.json`, `${name}.md`];
}
