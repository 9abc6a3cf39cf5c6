import { availableParallelism } from 'node:os';
import { basename, join, relative, resolve } from 'node:path';
import { KvError } from '@kv/core';
import { openCheckpoint } from '@kv/models';
import { heldOutBook, sentencesOf } from '@kv/tasks';
import { Command } from 'commander';
import { deviceOption } from '../device.ts';
import { chooseEngine, engineOption } from '../engine.ts';
import type { EngineChoice } from '../engine.ts';
import { checkpointPath, MODEL_HELP, resolveModel } from '../model-source.ts';
import { didYouMean } from '@kv/core';
import { engineName } from '../needle/prepare.ts';
import { runPool, threadRunner, threadsOf } from '../needle/pool.ts';
import { startProgress } from '../needle/progress.ts';
import { digest, openLines } from '../needle/store.ts';
import { weightsDigest } from '../needle/weights-digest.ts';
import { list, oneOf, whole } from '../option-values.ts';
import { carried } from '../papers/carries.ts';
import { contrastsOf, jobsOf, known, policiesOf } from '../papers/jobs.ts';
import type { Job, Result, Settings } from '../papers/jobs.ts';
import { outcomeOf } from '../papers/outcome.ts';
import { PLAN_NAMES, planFor, planJson, usual } from '../papers/plans.ts';
import type { PlanName } from '../papers/plans.ts';
import { markdown, planText, terminalTable } from '../papers/table.ts';
import type { Study } from '../papers/table.ts';
import { isPlanned, PAPERS } from '../papers/types.ts';
import type { Excused, Kind, Paper, Plan, Row } from '../papers/types.ts';
import { proseOf } from '../papers/windows.ts';
import type { PapersData } from '../papers/worker.ts';
import { policyCode } from '../policy/policy-code.ts';
import type { Terminal } from '../terminal.ts';
import { checkWritable, writeWhole } from '../whole-file.ts';

interface PapersOptions {
  readonly model: string;
  readonly plan?: PlanName;
  readonly engine: EngineChoice;
  readonly paper?: readonly Paper[];
  readonly row?: readonly string[];
  readonly n?: number;
  readonly seed?: number;
  readonly workers: number;
  readonly out?: string;
  readonly list?: true;
  readonly json?: true;
  readonly fresh?: true;
}

/** `kv papers`: what each paper promised, measured here. */
export const papersCommand = (terminal: Terminal): Command =>
  new Command('papers')
    .description('Rerun what the papers promised, from the plans in studies/papers, and say what held.')
    .option('--model <name>', MODEL_HELP, 'embedded')
    .option(
      '--plan <name>',
      '1 (every row of the papers), 2 (pieces that came after it, on the embedded model), 3 (a checkpoint) (default: 1 on the embedded model, else 3)',
      oneOf('--plan', PLAN_NAMES),
    )
    .option(...engineOption('exact'))
    .option(...deviceOption)
    .option(
      '--paper <list>',
      `only rows of these papers: ${PAPERS.join(', ')}`,
      list('--paper', oneOf('--paper', PAPERS)),
    )
    .option(
      '--row <list>',
      'only these rows, as --list names them',
      list('--row', (text) => text),
    )
    .option('--n <n>', "prompts of every task (default: the plan's)", whole('--n', { min: 2, max: 10_000 }))
    .option('--seed <n>', "other prompts than the plan's: development", whole('--seed'))
    .option(
      '--workers <n>',
      'threads, each with its own model (on a GPU 1 unless given)',
      whole('--workers', { min: 1, max: 64 }),
      Math.min(8, availableParallelism()),
    )
    .option('--out <folder>', 'write results there, as JSON and as a Markdown table')
    .option('--list', 'print the plan and run nothing')
    .option('--json', 'with --list: the whole plan as JSON')
    .option('--fresh', 'forget the results of earlier runs on this model and these prompts')
    .action(async (options: PapersOptions, command: Command) => {
      const kind: Kind = options.model === 'embedded' ? 'embedded' : 'real',
        name = options.plan ?? usual(kind),
        plan = planFor(name, kind),
        rows = rowsOf(plan, name, options);
      if (options.list) {
        terminal.stdout.write(options.json ? planJson(plan) : `${planText(rows, plan.on)}\n`);
        return;
      }
      // observers, saved states and logits are read on the host
      const engine = await chooseEngine(command, terminal.cwd, false);
      await papers(
        {
          ...options,
          engine,
          workers: engine === 'webgpu' && command.getOptionValueSource('workers') !== 'cli' ? 1 : options.workers,
        },
        { kind, name, plan, rows },
        terminal,
      );
    });

/** What a command comes to. */
interface Chosen {
  readonly kind: Kind;
  readonly name: PlanName;
  readonly plan: Plan;
  readonly rows: readonly Row[];
}

function rowsOf(plan: Plan, name: PlanName, { row, paper }: PapersOptions): readonly Row[] {
  const ids = plan.rows.map(({ id }) => id),
    unknown = row?.find((id) => !ids.includes(id));
  if (unknown !== undefined)
    throw new KvError(
      '--row',
      `expected a row of plan ${name}${didYouMean(unknown, ids)}, got '${unknown}': 'kv papers --plan ${name} --list' lists them`,
    );
  return plan.rows.filter((one) => (row?.includes(one.id) ?? true) && (paper?.includes(one.paper) ?? true));
}

async function papers(options: PapersOptions, chosen: Chosen, terminal: Terminal): Promise<void> {
  const { stdout, stderr, signal, cwd } = terminal,
    { kind, name, plan } = chosen,
    { model, n, workers, engine, seed = plan.seed } = options;
  if (options.out !== undefined)
    checkWritable(join(resolve(cwd, options.out), 'results'), options.out, { folder: true });
  const path = await resolveModel(model, terminal),
    rows = await carriedRows(chosen, path, { n, seed, cwd, signal });
  const settings: Settings = {
    weights: await weightsDigest(path),
    engine: await engineName(engine, cwd),
    seed,
    code: await policyCode(policiesOf(plan), cwd),
  };
  const store = openLines<Result>(resolve(cwd, '.kv'), 'papers', settings, options.fresh),
    results = [...store.found];
  const jobs = jobsOf(plan, rows.filter(isPlanned), kind, n, known(results, plan)),
    data: PapersData = {
      path,
      cwd,
      engine,
      threads: threadsOf(workers),
      plan: name,
      seed,
      embedded: kind === 'embedded',
    };
  if (jobs.length > 0) {
    store.ready();
    const progress = startProgress('papers', stderr, jobs.length, 0);
    const onResult = (result: Result): void => {
      store.add(result);
      results.push(result);
      progress.step();
    };
    await runPool<Job, Result>({
      jobs,
      size: workers,
      start: () => threadRunner('papers', data),
      signal,
      onResult,
    }).finally(() => progress.stop());
  }
  if (signal.aborted) {
    stderr.write(
      `papers: stopped; ${results.length} results are in ${relative(cwd, store.path)}; the same command continues\n`,
    );
    return;
  }
  const study = studyOf(options, settings, { ...chosen, rows }, results);
  stdout.write(`${terminalTable(study)}\n`);
  if (options.out !== undefined)
    stdout.write(
      `results: ${written(study, name === usual(kind) ? '' : `-${name}`, resolve(cwd, options.out))
        .map((file) => relative(cwd, file))
        .join(', ')}\n`,
    );
}

/** Rows as the model can be asked them. Weights are the workers' business: configuration and tokenizer say it. */
async function carriedRows(
  { kind, plan, rows }: Chosen,
  path: string,
  {
    n,
    seed,
    cwd,
    signal,
  }: {
    readonly n: number | undefined;
    readonly seed: number;
    readonly cwd: string;
    readonly signal: AbortSignal;
  },
): Promise<readonly Row[]> {
  const { config, tokenizer, close } = await openCheckpoint(checkpointPath(path), { signal }),
    book = await heldOutBook();
  await close();
  return carried(
    rows,
    plan,
    {
      path,
      kind,
      config,
      tokenizer,
      sentences: sentencesOf(book),
      prose: proseOf(book, tokenizer, plan, seed).length,
      cwd,
    },
    n,
  );
}

function studyOf(
  { model, plan: asked, n, paper, row }: PapersOptions,
  settings: Settings,
  { kind, plan, rows }: Chosen,
  results: readonly Result[],
): Study {
  const own = settings.seed === plan.seed;
  const flags = [
    model === 'embedded' ? '' : ` --model ${model}`,
    asked === undefined ? '' : ` --plan ${asked}`,
    paper ? ` --paper ${paper.join(',')}` : '',
    row ? ` --row ${row.join(',')}` : '',
    n === undefined ? '' : ` --n ${n}`,
    own ? '' : ` --seed ${settings.seed}`,
  ];
  const label = own
      ? n === undefined
        ? undefined
        : `${n} prompts, not the plan's number`
      : "development: not the plan's prompts",
    all = known(results, plan),
    planned = rows.filter(isPlanned);
  const tasks = new Set(planned.flatMap((one) => contrastsOf(one, kind).map(({ task }) => task))),
    seconds = results.reduce((sum, result) => sum + (tasks.has(result.task) ? result.seconds : 0), 0);
  return {
    command: `kv papers${flags.join('')}`,
    date: new Date().toISOString().slice(0, 10),
    plan: digest(plan),
    model: basename(model),
    ...settings,
    ...(label !== undefined && { label }),
    seconds,
    outcomes: planned.map((one) => outcomeOf(one, kind, n, all)),
    excused: rows.filter((one): one is Excused => !isPlanned(one)),
    left: plan.rows.filter(({ id }) => !rows.some((one) => one.id === id)).map(({ id }) => id),
  };
}

function written(study: Study, plan: string, folder: string): readonly string[] {
  const name = join(folder, `results-${study.model.replace(/\.\w+$/, '')}${plan}`);
  writeWhole(
    `${name}.json`,
    `${JSON.stringify({ ...study, outcomes: study.outcomes.map(({ row, ...outcome }) => ({ row: row.id, ...outcome })) }, undefined, 1)}\n`,
    `${name}.json`,
  );
  writeWhole(`${name}.md`, markdown(study), `${name}.md`);
  return [`${name}.json`, `${name}.md`];
}
