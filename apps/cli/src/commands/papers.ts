import { mkdirSync, writeFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { basename, join, relative, resolve } from 'node:path';
import { KvError } from '@kv/core';
import { Command } from 'commander';
import { engineOption, openEngine } from '../engine.ts';
import type { EngineChoice } from '../engine.ts';
import { MODEL_HELP, resolveModel } from '../model-source.ts';
import { didYouMean } from '../nearest.ts';
import { runPool, threadRunner, threadsOf } from '../needle/pool.ts';
import { startProgress } from '../needle/progress.ts';
import { digest, openLines } from '../needle/store.ts';
import { weightsDigest } from '../needle/weights-digest.ts';
import { list, oneOf, whole } from '../option-values.ts';
import { contrastsOf, jobsOf, known } from '../papers/jobs.ts';
import type { Job, Kind, Result, Settings } from '../papers/jobs.ts';
import { outcomeOf } from '../papers/outcome.ts';
import { PLAN, RULES, SEED, TASKS } from '../papers/plan.ts';
import { markdown, planText, terminalTable } from '../papers/table.ts';
import type { Study } from '../papers/table.ts';
import { isPlanned, PAPERS } from '../papers/types.ts';
import type { Excused, Paper, Row } from '../papers/types.ts';
import type { PapersData } from '../papers/worker.ts';
import type { Terminal } from '../terminal.ts';

interface PapersOptions {
  readonly model: string;
  readonly engine: EngineChoice;
  readonly paper?: readonly Paper[];
  readonly row?: readonly string[];
  readonly n?: number;
  readonly seed: number;
  readonly workers: number;
  readonly out?: string;
  readonly list?: true;
  readonly json?: true;
  readonly fresh?: true;
}

const PLANNED = { seed: SEED, rules: RULES, tasks: TASKS, rows: PLAN };

/** `kv papers`: what each paper promised, measured here. */
export const papersCommand = (terminal: Terminal): Command => new Command('papers')
  .description("Rerun what the papers promised, from the plan in studies/papers, and say what held.")
  .option('--model <name>', MODEL_HELP, 'embedded')
  .option(...engineOption('exact'))
  .option('--paper <list>', `only rows of these papers: ${PAPERS.join(', ')}`, list('--paper', oneOf('--paper', PAPERS)))
  .option('--row <list>', 'only these rows, as --list names them', list('--row', rowId))
  .option('--n <n>', "prompts of every task (default: the plan's)", whole('--n', { min: 2, max: 10_000 }))
  .option('--seed <n>', "other prompts than the plan's: development", whole('--seed'), SEED)
  .option('--workers <n>', 'threads, each with its own model', whole('--workers', { min: 1, max: 64 }), Math.min(8, availableParallelism()))
  .option('--out <folder>', 'write results there, as JSON and as a Markdown table')
  .option('--list', 'print the plan and run nothing')
  .option('--json', 'with --list: the whole plan as JSON')
  .option('--fresh', 'forget the results of earlier runs on this model and these prompts')
  .action((options: PapersOptions) => papers(options, terminal));

function rowId(text: string): string {
  const ids = PLAN.map(({ id }) => id);
  if (ids.includes(text)) return text;
  throw new KvError('--row', `expected a row of the plan${didYouMean(text, ids)}, got '${text}': 'kv papers --list' lists them`);
}

async function papers(options: PapersOptions, terminal: Terminal): Promise<void> {
  const { stdout, stderr, signal, cwd } = terminal;
  const rows = PLAN.filter(({ id, paper }) => (options.row?.includes(id) ?? true) && (options.paper?.includes(paper) ?? true));
  if (options.list) {
    stdout.write(options.json ? `${JSON.stringify({ digest: digest(PLANNED), ...PLANNED }, undefined, 2)}\n` : `${planText(rows)}\n`);
    return;
  }
  const { model, seed, n, workers, engine } = options, path = await resolveModel(model, terminal), kind: Kind = model === 'embedded' ? 'embedded' : 'real';
  const settings: Settings = { weights: await weightsDigest(path), engine: (await openEngine(engine, cwd, 1)).name, seed };
  const store = openLines<Result>(resolve(cwd, '.kv'), 'papers', settings, options.fresh), results = [...store.found];
  const jobs = jobsOf(rows.filter(isPlanned), kind, n, known(results)), data: PapersData = { path, cwd, engine, threads: threadsOf(workers), seed, embedded: kind === 'embedded' };
  if (jobs.length > 0) {
    const progress = startProgress('papers', stderr, jobs.length, 0);
    const onResult = (result: Result): void => { store.add(result); results.push(result); progress.step(); };
    await runPool<Job, Result>({ jobs, size: workers, start: () => threadRunner('papers', data), signal, onResult }).finally(() => progress.stop());
  }
  if (signal.aborted) {
    stderr.write(`papers: stopped; ${results.length} results are in ${relative(cwd, store.path)}; the same command continues\n`);
    return;
  }
  const study = studyOf(options, settings, rows, results, kind);
  stdout.write(`${terminalTable(study)}\n`);
  if (options.out !== undefined) stdout.write(`results: ${written(study, resolve(cwd, options.out)).map((file) => relative(cwd, file)).join(', ')}\n`);
}

function studyOf({ model, n, paper, row }: PapersOptions, settings: Settings, rows: readonly Row[], results: readonly Result[], kind: Kind): Study {
  const flags = [model === 'embedded' ? '' : ` --model ${model}`, paper ? ` --paper ${paper.join(',')}` : '', row ? ` --row ${row.join(',')}` : '', n === undefined ? '' : ` --n ${n}`, settings.seed === SEED ? '' : ` --seed ${settings.seed}`];
  const label = settings.seed !== SEED ? "development: not the plan's prompts" : n !== undefined ? `${n} prompts, not the plan's number` : undefined, all = known(results), planned = rows.filter(isPlanned);
  const tasks = new Set(planned.flatMap((one) => contrastsOf(one, kind).map(({ task }) => task))), seconds = results.reduce((sum, result) => sum + (tasks.has(result.task) ? result.seconds : 0), 0);
  return {
    command: `kv papers${flags.join('')}`, date: new Date().toISOString().slice(0, 10), plan: digest(PLANNED), model: basename(model), ...settings, ...(label !== undefined && { label }), seconds,
    outcomes: planned.map((one) => outcomeOf(one, kind, n, all)), excused: rows.filter((one): one is Excused => !isPlanned(one)), left: PLAN.filter((one) => !rows.includes(one)).map(({ id }) => id),
  };
}

function written(study: Study, folder: string): readonly string[] {
  mkdirSync(folder, { recursive: true });
  const name = join(folder, `results-${study.model.replace(/\.\w+$/, '')}`);
  writeFileSync(`${name}.json`, `${JSON.stringify({ ...study, outcomes: study.outcomes.map(({ row, ...outcome }) => ({ row: row.id, ...outcome })) }, undefined, 1)}\n`);
  writeFileSync(`${name}.md`, markdown(study));
  return [`${name}.json`, `${name}.md`];
}
