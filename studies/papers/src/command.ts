import { basename, join, relative, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { count, list, maybe, oneOf, text, whole } from '@kv/core';
import type { ResolvedOptions } from '@kv/core';
import { checkWritable, writeWhole } from '@kv/evaluation/files';
import { Command } from 'commander';
import { colors as pc } from '../../../apps/cli/src/colors.ts';
import { fitColumns, reflow } from '../../../apps/cli/src/columns.ts';
import { chooseEngine } from '../../../apps/cli/src/engine.ts';
import { here, machineOf, namingOf, run, subjectOf, workersOption } from '../../../apps/cli/src/experiment.ts';
import { withFlagNames, withFlags } from '../../../apps/cli/src/flags.ts';
import { withExamples } from '../../../apps/cli/src/help.ts';
import { codeOf } from '../../../apps/cli/src/policy/package-code.ts';
import type { CommandProgram } from '../../../apps/cli/src/program.ts';
import { readText } from '../../../apps/cli/src/run/questions.ts';
import { machineOptions, on } from '../../../apps/cli/src/shared-options.ts';
import { lineWidth } from '../../../apps/cli/src/terminal.ts';
import type { Terminal } from '../../../apps/cli/src/terminal.ts';
import { outcomeCells, rowText, studyMarkdown } from './markdown.ts';
import { planFor, planNames, planText, usualPlan } from './plans.ts';
import { paperStudy, rowsOf } from './study.ts';
import type { Study } from './study.ts';
import { paperNames } from './types.ts';
import type { Verdict } from './verdict.ts';

const SHELL = 'npm run -s study --';
const BUILT = !import.meta.url.endsWith('.ts'),
  /** Folder of the studies package, relative to `dist/bin.js` or this file. */
  STUDIES = fileURLToPath(new URL(BUILT ? '..' : '../..', import.meta.url)),
  WORKER = new URL(BUILT ? './worker.js' : './worker.ts', import.meta.url);

const PAPERS_FLAGS = {
  ...machineOptions('f32'),
  plan: maybe(
    oneOf(
      planNames,
      '1',
      '1 (every row of the papers), 2 (pieces that came after it, on the embedded model), 3 (a checkpoint), 4 (tables of the papers that the first three leave out, on either), 5 (rows of the fourth for a longer text, and causes of what did not hold), 6 (claims asked again on a bed that can tell, a checkpoint), 7 (the same, the embedded model), 8 and 9 (the same, by either), 10 and 11 (rows that a later reading found asked otherwise than printed).',
    ),
    '1 on the embedded model, else 3',
  ),
  paper: maybe(
    list(oneOf(paperNames, paperNames[0], 'A paper.'), [], `Only rows of these papers: ${paperNames.join(', ')}.`),
  ),
  row: maybe(list(text('', 'a row', 'A row.'), [], 'Only these rows, as --list names them.')),
  n: maybe(count(1, 'prompts', 'Prompts of every task.', { least: 2, most: 10_000 }), "the plan's"),
  seed: maybe(whole(0, 'n', "Other prompts than the plan's: development.")),
  text: maybe(text('', 'a file', 'What prose comes from, instead of the opening of a book that is included.')),
  workers: workersOption,
  out: maybe(text('', 'a folder', 'Write results there, as JSON and as a Markdown table.')),
  list: on('Print the plan and run nothing.'),
  json: on('Print what came out as one object, or with --list the whole plan.'),
  fresh: on('Discard the results of earlier runs on this model and these prompts.'),
};
type Flags = ResolvedOptions<typeof PAPERS_FLAGS>;

/** The study `papers`: measures here what each paper promised. */
const papersCommand = (terminal: Terminal): Command => {
  return withExamples(
    withFlags(
      new Command('papers').description(
        'Rerun what the papers promised, from plans that were fixed before, and say what held.',
      ),
      PAPERS_FLAGS,
    ).action((flags: Flags, command: Command) => withFlagNames(command, () => papers(flags, command))),
    [`${SHELL} papers --list`, 'what each paper promised, and how it is asked'],
    [`${SHELL} papers --row caote-h2o-needle --n 20`, 'one row on few prompts'],
  );

  async function papers(flags: Flags, command: Command): Promise<void> {
    const { cwd, stdout } = terminal,
      width = lineWidth(stdout),
      { model, paper, row, n, seed, text: file, fresh } = flags,
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
      prose = file === undefined ? undefined : readText(file, cwd),
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
  commands: { papers: async () => papersCommand },
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
