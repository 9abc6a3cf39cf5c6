import { availableParallelism, cpus } from 'node:os';
import { basename } from 'node:path';
import { count, KvError, list, maybe, oneOf, text } from '@kv/core';
import type { ResolvedOptions } from '@kv/core';
import { budgetOption } from '@kv/core/engine';
import { bytesText } from '@kv/core/shared';
import { openCheckpoint } from '@kv/checkpoints';
import { CACHE } from '@kv/engine';
import type { Budget } from '@kv/models';
import { Command } from 'commander';
import { measureOurs } from '../bench/measure-kv.ts';
import { findPeer, measurePeer, PEER } from '../bench/peer.ts';
import type { BenchJob, EngineTimes } from '../bench/bench-job.ts';
import { cacheText } from '../cache-text.ts';
import { fitColumns, reflow } from '../columns.ts';
import { hasGpu } from '../device.ts';
import { withFlags } from '../flags.ts';
import { withExamples } from '../help.ts';
import { checkpointPath, MODEL_HELP, resolveModel } from '../model-source.ts';
import { plain } from '../plain.ts';
import { resolvePolicy } from '../policy/resolve-policy.ts';
import { readText } from '../run/questions.ts';
import { cacheOption, on, policiesOf, policyOptions } from '../shared-options.ts';
import { lineWidth } from '../terminal.ts';
import type { Terminal } from '../terminal.ts';
import { withoutOnnx } from '../engine.ts';

const ENGINES = ['fast', 'f32', 'onnx', 'webgpu', 'peer'] as const;
type Name = (typeof ENGINES)[number];

/** Lengths of prompts, if they fit the model's context. */
const LENGTHS = [1024, 4096];

/** Flags of `kv bench`. */
export const BENCH = {
  ...policyOptions(
    list(
      text('', 'a policy', 'A policy.'),
      ['knorm', 'h2o', 'tova', 'snapkv', 'taFast', 'snapkvCaote', 'attendedSentences'],
      "Policies that are measured, as 'kv run --policy' takes them: their event at the first length, or, where they hide slots and evict none, decoding at the longest.",
    ),
  ),
  tokens: maybe(
    list(count(1, 'tokens', 'A length.', { least: 64 }), LENGTHS, 'Lengths of prompts.'),
    `${LENGTHS.join(',')}, as far as the context has room`,
  ),
  decode: count(48, 'tokens', 'Tokens that are generated after each.'),
  turns: count(3, 'times', 'How often each is measured.'),
  engines: list(
    oneOf(ENGINES, 'fast', 'An engine.'),
    ENGINES,
    `Which of ${ENGINES.join(',')}; those that are not installed here are named and left out.`,
  ),
  budget: { ...budgetOption('What their events keep.'), default: '25%' as Budget },
  cache: { ...cacheOption(), says: `${CACHE.says} The peer has its own.` },
  threads: maybe(count(1, 'threads', 'Threads on the CPU.', { most: 1024 }), 'the cores of this machine, at most 8'),
  peer: maybe(text('', 'a folder', `Where ${PEER} is installed, if not in the working folder or above.`)),
  text: maybe(text('', 'a file', 'Prose for the prompts.'), 'made-up sentences'),
  json: on('Print one object.'),
};
type BenchOptions = ResolvedOptions<typeof BENCH>;

/** An engine that was skipped, and why. */
interface Skipped {
  readonly name: Name;
  readonly why: string;
}

/** `kv bench`: speed and memory of each installed engine on a model. */
export const benchCommand = (terminal: Terminal): Command =>
  withExamples(
    withFlags(
      new Command('bench')
        .description(
          'Measure prefill, decoding, the event of several policies and memory of each engine installed here.',
        )
        .argument('<model>', MODEL_HELP),
      BENCH,
    ).action((model: string, options: BenchOptions) => bench(model, options, terminal)),
    ['kv bench model.gguf', 'speed, events and memory of each engine installed here'],
    ['kv bench model.gguf --json --threads 2', 'one object for a program'],
  );

async function bench(model: string, options: BenchOptions, terminal: Terminal): Promise<void> {
  const { cwd, signal, stderr, stdout } = terminal,
    { decode, turns, threads } = options,
    policies = await Promise.all(
      policiesOf(options, BENCH.policies).map(async (name) => ({ name, policy: await resolvePolicy(name, terminal) })),
    ),
    peer = findPeer(cwd, options.peer),
    path = await resolveModel(model, terminal),
    job: BenchJob = { prompts: await prompts(path, options, terminal), decode, turns, threads, signal };
  const measured: EngineTimes[] = [],
    skipped: Skipped[] = [];
  for (const name of options.engines) {
    const why = await missing(name, path, peer, cwd);
    if (why !== undefined) {
      skipped.push({ name, why });
      continue;
    }
    if (name === 'peer') stderr.write('peer: measuring\n');
    const done =
      name === 'peer'
        ? await measurePeer(peer!, checkpointPath(path), job) // not missing
        : await measureOurs(
            name,
            path,
            cwd,
            job,
            {
              policies,
              budget: options.budget,
              cache: options.cache,
              onLoaded: ({ engine, cacheForm, config }) =>
                stderr.write(`${name}: measuring ${engine}; ${cacheText(cacheForm, config)}\n`),
            },
            new Set(measured.map(({ engine }) => engine)),
          );
    if (done) measured.push({ ...done, name });
    else skipped.push({ name, why: 'the same as an engine above' });
  }
  const machine = {
    model: basename(model),
    cpu: cpus()[0]?.model ?? 'unknown',
    cores: availableParallelism(),
    node: process.version,
    turns,
  };
  stdout.write(
    options.json
      ? `${JSON.stringify({ ...machine, engines: measured, skipped })}\n`
      : sheet(machine, measured, skipped, lineWidth(stdout)),
  );
}

/** Returns why an engine cannot run here, or undefined. */
async function missing(name: Name, path: string, peer: string | undefined, cwd: string): Promise<string | undefined> {
  if (name === 'webgpu' && !(await hasGpu(cwd))) return 'no @kv/engine-webgpu, or no hardware adapter';
  if (name === 'onnx') return withoutOnnx(cwd);
  if (name !== 'peer') return undefined;
  if (peer === undefined) return `${PEER} is not installed (--peer names a folder where it is)`;
  return checkpointPath(path).endsWith('.gguf') ? undefined : 'reads .gguf files alone';
}

/** Returns prompts of the requested lengths, shortest first. */
async function prompts(
  path: string,
  { tokens, decode, text }: BenchOptions,
  { cwd, signal }: Terminal,
): Promise<BenchJob['prompts']> {
  const { config, tokenizer, close } = await openCheckpoint(checkpointPath(path), { signal });
  await close();
  const most = config.maxPositions - decode - 1,
    fitting = LENGTHS.filter((length) => length <= most),
    lengths = tokens ?? (fitting.length > 0 ? fitting : [most]),
    longest = Math.max(...lengths);
  if (longest > most || most < 1)
    throw new KvError(
      '--tokens',
      `expected lengths of at most ${Math.max(0, most)}, which leave room for ${decode + 1} more in the context of ${config.maxPositions}, got ${longest}`,
    );
  const prose = text === undefined ? sentences(longest) : readText(text, cwd),
    { ids } = tokenizer.encode(prose);
  if (ids.length < longest)
    throw new KvError('--text', `expected a text of at least ${longest} tokens, got ${ids.length}`);
  return lengths.toSorted((a, b) => a - b).map((length) => ids.slice(0, length));
}

const WORDS =
  'the river was wide and a boy told his old friend that rain would come before they saw any light again'.split(' ');

/** Returns sentences of at least `tokens` tokens: every word is at least one. */
function sentences(tokens: number): string {
  const out: string[] = [];
  let state = 1;
  for (let word = 0; word < tokens; word++) {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    out.push(WORDS[Math.floor((state / 2 ** 32) * WORDS.length)] + (state % 11 === 0 ? '.' : ''));
  }
  return out.join(' ');
}

/** Formats the median of some numbers, and their range. */
function spread(numbers: readonly number[], digits: number): string {
  const all = numbers.toSorted((a, b) => a - b),
    [least, middle, most] = [all[0], all[Math.floor(all.length / 2)], all[all.length - 1]];
  const text = middle.toFixed(digits);
  return all.length === 1 ? text : `${text} (${least.toFixed(digits)}-${most.toFixed(digits)})`;
}

function sheet(
  {
    model,
    cpu,
    cores,
    node,
    turns,
  }: Readonly<Record<'model' | 'cpu' | 'node', string>> & {
    readonly cores: number;
    readonly turns: number;
  },
  measured: readonly EngineTimes[],
  skipped: readonly Skipped[],
  width: number,
): string {
  const speeds = measured.flatMap(({ name, speed }) =>
    speed.map(({ tokens, turns }) => [
      name,
      String(tokens),
      spread(
        turns.map(({ prefill }) => prefill),
        0,
      ),
      spread(
        turns.map(({ decode }) => decode),
        1,
      ),
    ]),
  );
  const events = measured.flatMap(({ name, events }) =>
    events.map(({ policy, turns }) => [
      name,
      policy,
      spread(
        turns.map(({ share }) => 100 * share),
        2,
      ),
      spread(
        turns.map(({ ms }) => ms),
        1,
      ),
    ]),
  );
  const views = measured.flatMap(({ name, views }) =>
    views.map(({ policy, tokens, ratios, counted }) => [
      name,
      policy,
      String(tokens),
      spread(ratios, 2),
      counted ? `${(counted.slots / counted.of).toFixed(3)}` : '',
      counted?.bytes === undefined ? '' : bytesText(counted.bytes),
    ]),
  );
  const states = measured.some(({ cache }) => cache !== undefined && cache.stateBytes > 0);
  const memory = measured.map(({ name, cache, memory: { process } }) => [
    name,
    ...(cache ? [cache.form, cache.bytesPerToken.toLocaleString('en'), bytesText(cache.peakBytes)] : ['', '', '']),
    ...(states ? [cache ? bytesText(cache.stateBytes) : ''] : []),
    bytesText(Math.max(0, process)),
  ]);
  const tables = [
    fitColumns([['engine', 'tokens', 'prefill, tokens/s', 'decode, tokens/s'], ...speeds], new Set([1, 2, 3]), width),
    ...(events.length === 0
      ? []
      : [fitColumns([['engine', 'event of', '% of prefill', 'ms'], ...events], new Set([2, 3]), width)]),
    ...(views.length === 0
      ? []
      : [
          fitColumns(
            [['engine', 'view', 'tokens', '× full', 'slots', 'a token reads'], ...views],
            new Set([2, 3, 4, 5]),
            width,
          ),
        ]),
    fitColumns(
      [['engine', 'cache', 'bytes a token', 'peak', ...(states ? ['and states'] : []), 'process grew by'], ...memory],
      new Set([2, 3, 4, 5]),
      width,
    ),
    [
      ...measured.map(({ name, engine }) => `${name} is ${plain(engine)}`),
      ...skipped.map(({ name, why }) => `${name} left out: ${why}`),
    ].join('\n'),
  ];
  const text = `${plain(model)}, ${cpu}, ${cores} cores, Node ${node}; median (least-most) of ${turns} turns; engines run one after the other, and a later one may reuse memory that an earlier one freed\n\n${tables.join('\n\n')}\n`;
  return reflow(text, width);
}
