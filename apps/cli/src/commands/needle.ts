import { availableParallelism } from 'node:os';
import { relative, resolve } from 'node:path';
import { compile } from '@kv/core';
import { Command } from 'commander';
import { MODEL_HELP } from '../model-source.ts';
import { deviceOption } from '../device.ts';
import { chooseEngine, engineOption, residentOn } from '../engine.ts';
import { prepare } from '../needle/prepare.ts';
import type { NeedleOptions } from '../needle/prepare.ts';
import { runPool, threadRunner, threadsOf } from '../needle/pool.ts';
import type { WorkerData } from '../needle/pool.ts';
import { duration, startProgress } from '../needle/progress.ts';
import { reportHtml } from '../needle/report-html.ts';
import type { Result } from '../needle/results.ts';
import { digest, openStore } from '../needle/store.ts';
import { MODES } from '../needle/settings.ts';
import { summarise } from '../needle/summary.ts';
import { table } from '../needle/table.ts';
import { budget, list, number, oneOf, whole } from '../option-values.ts';
import { resolvePolicy } from '../policy/resolve-policy.ts';
import { plain } from '../plain.ts';
import type { Terminal } from '../terminal.ts';
import { checkWritable, writeWhole } from '../whole-file.ts';

/**
 * Windows below the smallest budget; wide pooling, since the question's attention falls on the first token of a value
 * alone.
 */
const POLICIES =
  'full,streaming,random,knorm,h2o,tova,snapkv(window=16,kernel=17,pooling=max),snapkvCaote(window=16,kernel=17,pooling=max),pyramidal(window=16,kernel=17),taFast(reach=12,slots=24)';

/** `kv needle`: which policy still lets the model answer at which budget. */
export const needleCommand = (terminal: Terminal): Command => {
  const policies = list('--policies', (text) => text),
    depths = list('--depths', number('--depths', { min: 0, max: 1 })),
    budgets = list('--budgets', budget('--budgets'));
  return new Command('needle')
    .description('Hide facts in a book and see which policy still lets the model answer at which budget.')
    .option('--model <name>', MODEL_HELP, 'embedded')
    .option(...engineOption('exact'))
    .option(...deviceOption)
    .option(
      '--policies <list>',
      "policies as 'kv run --policy' takes them, between commas",
      policies,
      policies(POLICIES),
    )
    .option(
      '--budgets <list>',
      'slots per layer and KV head, or shares of the prompt, between commas',
      budgets,
      budgets('12.5%,25%,50%'),
    )
    .option(
      '--depths <list>',
      'where the fact stands, 0 (first) to 1 (last), between commas',
      depths,
      depths('0.1,0.5,0.9'),
    )
    .option('--prompts <n>', 'prompts for every policy, budget, depth and mode', whole('--prompts', { min: 1 }), 50)
    .option('--tokens <n>', 'length of every prompt', whole('--tokens', { min: 64 }), 512)
    .option(
      '--mode <mode>',
      'aware (question in the prompt), agnostic (question after the eviction) or both',
      oneOf('--mode', [...MODES, 'both']),
      'both' as const,
    )
    .option(
      '--form <form>',
      'code (8 characters), number (7 digits) or both in turn',
      oneOf('--form', ['code', 'number', 'both']),
      'both' as const,
    )
    .option(
      '--asking <form>',
      'cued (the prompt ends before the value) or free (it ends in a question, and the answer has to name the value)',
      oneOf('--asking', ['cued', 'free']),
      'cued' as const,
    )
    .option('--distractors <n>', 'other facts of the same form in the text', whole('--distractors', { max: 16 }), 0)
    .option('--seed <n>', 'other prompts', whole('--seed'), 0)
    .option(
      '--workers <n>',
      'threads, each with its own model (on a GPU 1 unless given)',
      whole('--workers', { min: 1, max: 64 }),
      Math.min(8, availableParallelism()),
    )
    .option('--out <file>', 'the HTML report (default: beside the results, in .kv)')
    .option('--fresh', 'forget the results of earlier runs with these settings')
    .action(async (options: NeedleOptions, command: Command) => {
      const compiled = await Promise.all(
        options.policies.map(async (text) => compile(await resolvePolicy(text, terminal))),
      );
      const engine = await chooseEngine(command, terminal.cwd, compiled.every(residentOn)),
        shared = engine.startsWith('webgpu') && command.getOptionValueSource('workers') !== 'cli';
      // workers share one GPU, each with its own weights on it
      await needleRun({ ...options, engine, workers: shared ? 1 : options.workers }, terminal);
    });
};

async function needleRun(options: NeedleOptions, terminal: Terminal): Promise<void> {
  const { stdout, stderr, signal, cwd } = terminal;
  const started = performance.now();
  const { settings, ways, jobs, path } = await prepare(options, terminal);
  const store = openStore(resolve(cwd, '.kv'), settings, options.fresh);
  const out = resolve(cwd, options.out ?? `.kv/needle-${digest(settings)}.html`),
    called = relative(cwd, out) || out;
  const known = new Map<string, Result>(store.found.map((result) => [result.id, result]));
  const left = jobs.filter(({ id }) => !known.has(id));
  if (left.length === 0)
    stderr.write(`needle: all results are in ${relative(cwd, store.path)}; --fresh measures again\n`);
  else {
    if (left.length < jobs.length) stderr.write(`needle: continues ${relative(cwd, store.path)}\n`);
    store.ready();
    checkWritable(out, called);
    const progress = startProgress('needle', stderr, jobs.length, jobs.length - left.length);
    const data: WorkerData = { settings, path, cwd, engine: options.engine, threads: threadsOf(options.workers) };
    const onResult = (result: Result): void => {
      store.add(result);
      known.set(result.id, result);
      progress.step();
    };
    await runPool({
      jobs: left,
      size: options.workers,
      start: () => threadRunner('needle', data),
      signal,
      onResult,
    }).finally(() => progress.stop());
  }
  if (signal.aborted) {
    stderr.write(
      `needle: stopped after ${known.size} of ${jobs.length} jobs, which are in ${relative(cwd, store.path)}; the same command continues\n`,
    );
    return;
  }
  const rows = summarise(settings, ways, [...known.values()]);
  writeWhole(out, reportHtml({ settings, ways, rows, results: [...known.values()] }), called);
  const seconds = left.length === 0 ? '' : ` in ${duration((performance.now() - started) / 1000)}`;
  stdout.write(
    `${table(rows)}\n\n${settings.prompts * settings.depths.length} prompts of ${settings.tokens} tokens, ${settings.prompts} at each of ${settings.depths.length} depths${seconds}, on ${settings.engine}\nreport: ${plain(called)}\n`,
  );
}
