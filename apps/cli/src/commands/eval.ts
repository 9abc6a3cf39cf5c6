import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import {
  answersParquet,
  checkAsked,
  checkPolicies,
  comparedLegend,
  confirmNote,
  contrastText,
  generationOf,
  kvpressFiles,
  modelOf,
  NEEDLE,
  readKvpress,
  readSweep,
  screeningLegend,
  seedNote,
  shownSweep,
  sweepContrasts,
  sweepCost,
  sweepCsv,
  sweepExample,
  sweepFields,
  sweepJson,
  sweepModel,
  sweepParquet,
  sweepReport,
  sweepTasks,
} from '@kv/evaluation';
import { checkWritable, writeWhole } from '@kv/evaluation/files';
import type { Cell, CellResult, OtherRow, ResultFile, SweepContrast, SweepCost, SweepRow } from '@kv/evaluation';
import { bytesText } from '@kv/core/shared';
import { count, KvError, maybe, text } from '@kv/core';
import type { ResolvedOptions } from '@kv/core';
import { Command } from 'commander';
import { CELL_MACHINE, cellBench } from '../cells.ts';
import { colors as pc } from '../colors.ts';
import { fitColumns, reflow } from '../columns.ts';
import { withFlags } from '../flags.ts';
import { withExamples } from '../help.ts';
import { plain } from '../plain.ts';
import { duration } from '../progress.ts';
import { reporter } from '../redact.ts';
import { on } from '../shared-options.ts';
import { lineWidth } from '../terminal.ts';
import type { Stream, Terminal } from '../terminal.ts';
import { VERSION } from '../version.ts';

/** Flags of `kv eval`. */
export const EVAL = {
  ...CELL_MACHINE,
  cache: maybe(NEEDLE.cache, "the sweep's `caches`, else f32"),
  csv: maybe(text('', 'a file', 'Write the rows as CSV.')),
  json: on('Print rows, answers, the sweep and the code as one object instead of the table.'),
  out: maybe(text('', 'a file', 'Write that object.')),
  parquet: maybe(text('', 'a file', 'Write the rows as Parquet.')),
  answers: maybe(text('', 'a file', 'Write every answer as Parquet.')),
  html: maybe(text('', 'a file', 'Write a report that opens offline and prints.')),
  kvpress: maybe(text('', 'a folder', "Write the answers as result folders of kvpress' evaluation.")),
  compareWith: maybe(text('', 'a folder', "Add rows of kvpress' result folders to the table and to what is written.")),
  predict: maybe(
    count(
      1,
      'problems',
      'Run this many problems of every policy and budget, keep nothing, and say how long the sweep takes.',
    ),
  ),
};
type Flags = ResolvedOptions<typeof EVAL>;

/** `kv eval`: policies x models x tasks x budgets x seeds. */
export const evalCommand = (terminal: Terminal): Command =>
  withExamples(
    withFlags(new Command('eval'), EVAL)
      .description('Ask every policy of a sweep on every model, task, budget and seed; the same command continues.')
      .argument('<sweep>', 'a JSON file: models, policies, tasks, budgets, seeds')
      .allowExcessArguments()
      .action((file: string, flags: Flags, command: Command) => {
        const [, more] = command.args;
        if (more !== undefined)
          throw new KvError(
            'eval',
            `expected one sweep, got ${plain(command.args.join(' '))}${flags.json ? ': --json prints, --out FILE writes the same to a file' : ''}`,
          );
        return evaluate(file, flags, command, terminal);
      }),
    ['kv eval sweep.json', 'run what is left of a sweep, and print its table'],
    [
      'kv eval sweep.json --predict 2',
      'say how long it will take on this machine, from 2 problems of each policy and budget',
    ],
    ['kv eval sweep.json --csv rows.csv', 'and its rows for a spreadsheet'],
    ['kv eval sweep.json --parquet rows.parquet --answers answers.parquet', 'and rows and answers for pandas'],
    ['kv eval sweep.json --html report.html', 'and a report for a reviewer'],
    ['kv eval sweep.json --kvpress results', "and result folders of kvpress' evaluation"],
    ['kv eval sweep.json --compare-with results', "with the rows of kvpress' results added"],
    ['kv eval sweep.json --queue redis://10.0.0.1:6379', "on many machines, each with 'kv worker'"],
  ).addHelpText('after', `\nA sweep:\n${sweepExample}\n\nIts fields (defaults in brackets):\n${sweepFields}`);

async function evaluate(
  file: string,
  { cache, csv, json, out: jsonFile, parquet, answers, html, kvpress, compareWith, predict }: Flags,
  command: Command,
  terminal: Terminal,
): Promise<void> {
  const { cwd, stdout, stderr } = terminal,
    path = resolve(cwd, file),
    sweep = readSweep(path, plain(file), cache);
  for (const out of [csv, jsonFile, parquet, answers, html])
    if (out !== undefined) checkWritable(resolve(cwd, out), plain(out));
  const write = async (out: string | undefined, data: () => string | Promise<Uint8Array>): Promise<void> => {
    if (out !== undefined) writeWhole(resolve(cwd, out), await data(), plain(out));
  };
  const others = compareWith === undefined ? [] : await readKvpress(resolve(cwd, compareWith), plain(compareWith)),
    bench = await cellBench(command, terminal),
    { names } = bench.naming;
  await checkPolicies(sweep, plain(file), names);
  const parts = await partsOf(sweep, path, bench);
  if (predict !== undefined) {
    for (const { model, found, tasks, options } of parts) {
      const time = (cells: readonly Cell[]): Promise<readonly number[]> => bench.seconds(found, { ...options, cells });
      stdout.write(`${costText(model, await sweepCost(sweep, tasks, predict, time, names))}\n`);
    }
    return;
  }
  const note = (text: string): void => void stderr.write(`eval: ${text}\n`),
    notes = [seedNote(sweep), confirmNote(sweep)];
  for (const one of notes) if (one !== undefined) note(one);
  const sweepBytes = readFileSync(path),
    report = reporter(terminal),
    rows: SweepRow[] = [],
    samples: Record<string, readonly CellResult[]> = {};
  for (const { model, found, tasks, options } of parts) {
    const came = await sweepModel(model, sweep, tasks, (cells) => bench.answers(found, { ...options, cells }), names);
    rows.push(...came.rows);
    samples[model] = reported(came.samples, sweep, tasks, report);
  }
  const all = [...rows, ...others],
    contrasts = sweepContrasts(sweep, { rows, samples }),
    outcome = {
      format: 1,
      sweep: shownSweep(sweep, report),
      code: await bench.naming.code(sweep.policies),
      rows,
      samples,
      ...(contrasts.length > 0 && { contrasts }),
      ...(others.length > 0 && { others }),
    } as const;
  if (json) stdout.write(sweepJson(outcome));
  else stdout.write(`${sweepText(all, stdout)}\n`);
  if (!json && contrasts.length > 0) stdout.write(`\n${reflow(contrastsText(contrasts), lineWidth(stdout))}\n`);
  await write(csv, () => sweepCsv(all));
  await write(jsonFile, () => sweepJson(outcome));
  await write(parquet, () => sweepParquet(all));
  await write(answers, () => answersParquet(samples));
  if (kvpress !== undefined)
    for (const { model, found, tasks } of parts) {
      const {
          config,
          tokenizer: { encode },
        } = found.subject,
        files = await kvpressFiles(model, { sweep, tasks, samples: samples[model], encode, config, names });
      writeFolders(files, resolve(cwd, kvpress), plain(kvpress));
    }
  await write(html, () =>
    sweepReport(outcome, {
      command: `kv eval ${plain(file)}${compareWith === undefined ? '' : ` --compare-with ${plain(compareWith)}`}`,
      versions: { kv: VERSION, Node: process.versions.node },
      sweep,
      hashes: { [`sha256 of ${plain(file)}`]: sha256(sweepBytes), ...hashesOf(parts) },
      redact: report,
    }),
  );
}

/** Writes files to a folder, which is created; existing files are replaced. */
function writeFolders(files: readonly ResultFile[], folder: string, called: string): void {
  for (const { path, text } of files) {
    const [into, name] = [join(folder, path), join(called, path)];
    checkWritable(into, name, { folder: true });
    writeWhole(into, text, name);
  }
}

type Bench = Awaited<ReturnType<typeof cellBench>>;
type Sweep = ReturnType<typeof readSweep>;
/** The part of a sweep for one model. */
interface Part {
  /** Its name in rows. */
  readonly model: string;
  readonly found: Awaited<ReturnType<Bench['subject']>>;
  readonly tasks: Awaited<ReturnType<typeof sweepTasks>>;
  readonly options: Pick<Parameters<Bench['answers']>[1], 'tasks' | 'generation' | 'policies'>;
}
/** Returns the part of a sweep for every model. @throws KvError for a model that cannot be asked it */
async function partsOf(sweep: Sweep, path: string, bench: Bench): Promise<readonly Part[]> {
  const parts: Part[] = [];
  for (const { name, model: source } of sweep.models.map(modelOf)) {
    const found = await bench.subject(source),
      tasks = await sweepTasks(sweep, path, found.subject.tokenizer.encode);
    await checkAsked(sweep, found.subject, tasks, bench.naming.names);
    parts.push({
      model: name,
      found,
      tasks,
      options: { tasks, generation: generationOf(sweep), policies: sweep.policies },
    });
  }
  return parts;
}

/** Redacts answers for a report, except values that kv generated itself, which are no credentials. */
function reported(
  samples: readonly CellResult[],
  sweep: Sweep,
  tasks: Part['tasks'],
  report: ReturnType<typeof reporter>,
): readonly CellResult[] {
  const texts = new Map(
    sweep.tasks.flatMap((task) =>
      typeof task === 'string' // texts that are read have numbers for answers
        ? tasks[task].map(({ id, context, question }) => [`${task}\n${id}`, context + question] as const)
        : [],
    ),
  );
  return samples.map((sample) => {
    const read = texts.get(`${sample.task}\n${sample.problem}`);
    return read === undefined ? sample : { ...sample, answer: report(sample.answer, read) };
  });
}

const hashesOf = (parts: readonly Part[]): Record<string, string> =>
  Object.fromEntries(
    parts.flatMap(({ model, found: { subject }, tasks }) => [
      [`weights of ${model}`, `${subject.fingerprint} on ${subject.engine}`],
      ...Object.entries(tasks).map(([task, problems]) => [
        `sha256 of the problems of ${task} for ${model}`,
        sha256(JSON.stringify(problems)),
      ]),
    ]),
  );

const sha256 = (data: string | Uint8Array): string => createHash('sha256').update(data).digest('hex');
const timeText = (seconds: number): string => (seconds < 3600 ? duration(seconds) : `${(seconds / 3600).toFixed(1)} h`);
const costText = (model: string, { cells, seconds, matching }: SweepCost): string =>
  `${plain(model)}: ${cells} answers, ${timeText(seconds)}${
    matching.cells > 0 ? `; equal mean cache, at most ${matching.cells} answers, ${timeText(matching.seconds)}` : ''
  }`;
const percent = (share: number | undefined): string => (share === undefined ? '' : `${(100 * share).toFixed(1)} %`);

function sweepText(rows: readonly (SweepRow | OtherRow)[], stdout: Stream): string {
  const short = rows.some((row) => 'meanSlots' in row && row.shortfall !== undefined),
    head = [
      ...['model', 'task', 'policy', 'budget', 'right', '95%', 'unparsed'],
      ...['mean slots', 'mean bytes', 'peak bytes', 'n'],
    ];
  const lines = rows.map((row) => {
    const { model, task, policy, budget = 'all', unparsed } = row;
    return [
      plain(model),
      plain(task),
      plain(policy),
      `${plain(String(budget))}${'meanSlots' in row ? given(row) : ''}`,
      ...rightOf(row),
      percent(unparsed),
      ...('meanSlots' in row
        ? [row.meanSlots.toFixed(1), bytesText(row.meanBytes), bytesText(row.peakBytes)]
        : ['', '', '']),
      String('problems' in row ? row.problems : row.samples),
      ...(short ? [percent('meanSlots' in row ? row.shortfall : undefined)] : []),
    ];
  });
  const titles = [...head, ...(short ? ['shortfall'] : [])],
    // a column with one value for all rows is printed once
    alike = [...titles.keys()].filter(
      (c) => ALIKE.has(titles[c]) && lines.length > 1 && lines.every((line) => line[c] === lines[0][c]),
    ),
    shown = [...titles.keys()].filter((c) => !alike.includes(c)),
    cut = (line: readonly string[]): readonly string[] => shown.map((c) => line[c]),
    table = fitColumns(
      [cut(titles.map(pc.dim)), ...lines.map(cut)],
      new Set(shown.flatMap((c, i) => (c === 4 || c > 5 ? [i] : []))),
      lineWidth(stdout),
    ),
    above = alike.filter((c) => lines[0][c] !== '').map((c) => `${titles[c]} ${lines[0][c]}`);
  return above.length === 0 ? table : `${reflow(above.join(', '), lineWidth(stdout))}\n${table}`;
}
/** Columns printed above the table if every row has the same value. */
const ALIKE: ReadonlySet<string> = new Set(['model', 'task', 'unparsed', 'n', 'shortfall']);

/** Describes each declared contrast in a sentence, and explains the numbers. */
const contrastsText = (contrasts: readonly SweepContrast[]): string =>
  [
    ...contrasts.map((contrast) => plain(contrastText(contrast))),
    `Brackets hold 95 % intervals of points, or of a factor of the perplexity (below 1 is better), paired by problem; Bonferroni is over these ${contrasts.length}. ${screeningLegend} ${comparedLegend}`,
  ].join('\n');

/** Formats the accuracy or perplexity, and its interval. */
function rightOf({ accuracy, interval, ...row }: SweepRow | OtherRow): readonly [string, string] {
  const { perplexity = undefined } = 'meanSlots' in row ? row : {},
    digits = (x: number): string => x.toPrecision(4);
  if (perplexity) {
    const { value, low, high } = perplexity;
    return [`ppl ${digits(value)}`, low === undefined || high === undefined ? '' : `${digits(low)}-${digits(high)}`];
  }
  // one document says nothing of others
  const told = 'problems' in row && row.problems < 2 ? undefined : interval;
  return [percent(accuracy), told ? `${(100 * told.low).toFixed(1)}-${(100 * told.high).toFixed(1)}` : ''];
}

const given = ({ budget, cache, slots, matched }: SweepRow): string =>
  `${slots === undefined || slots === budget ? '' : ` as ${slots}`}${cache === undefined ? '' : ` in ${cache}`}${matched === false ? ' (not matched)' : ''}`;
