import { join } from 'node:path';
import { grade } from '@kv/tasks';
import type { Encode, Problem } from '@kv/tasks';
import { compile, exactSlotsOf } from '@kv/core/engine';
import type { CompiledPolicy } from '@kv/core/engine';
import { policySizes } from '@kv/engine';
import { EXACT } from '../cells/types.ts';
import type { CellResult, Tasks } from '../cells/types.ts';
import type { Subject } from '../subject.ts';
import { isRead } from '../cells/perplexity.ts';
import { mean } from '../numbers.ts';
import { policyOf } from '../policies.ts';
import type { PolicyNaming } from '../policies.ts';
import { groupBy } from '../grouped.ts';
import { csv } from '../sweep/table.ts';
import { nameOf } from '../sweep/sweep.ts';
import type { Sweep } from '../sweep/sweep.ts';
import { numpyStrings, pythonFloat } from './python.ts';
import { BOXED, boxedScore, cleanAnswer, FILES, percentOf, rulerGrader, WHOLE } from './shape.ts';

/** Policies that equal a press of kvpress' registry in every option. */
const PRESSES: Readonly<Record<string, string>> = {
  full: 'no_press',
  knorm: 'knorm',
  tova: 'tova',
  keydiff: 'keydiff',
  qfilter: 'qfilter',
  meanAttention: 'observed_attention',
  'random(seed=0)': 'random',
  'streaming(sinks=4)': 'streaming_llm',
  'snapkv(window=64,kernel=5)': 'snapkv',
  'pyramidkv(window=64,kernel=5,beta=20)': 'pyramidkv',
  'lagkv(sinks=4,lag=128,cross=false)': 'lagkv',
  'cur(sinks=4,window=16,of=product)': 'cur',
};
const RULER = /^(?:niah_(?:single|multikey)_\d|niah_multi(?:value|query)|vt|cwe|fwe)$/;

/** A file of a result folder; `path` is relative to the folder of all results. */
export interface ResultFile {
  /** Path within the folder. */
  readonly path: string;
  readonly text: string;
}

/**
 * Returns the answers of one model as kvpress' result folders, one per data set, policy, budget and seed. Data sets and
 * presses unknown to kvpress keep our names, and their answers include their scores.
 */
export async function kvpressFiles(
  model: string,
  {
    sweep,
    tasks,
    samples,
    encode,
    config,
    names,
  }: {
    readonly sweep: Sweep;
    readonly tasks: Tasks;
    readonly samples: readonly CellResult[];
    readonly encode: Encode;
    readonly config: Subject['config'];
    readonly names?: PolicyNaming['names'];
  },
): Promise<readonly ResultFile[]> {
  const { stringify, Scalar } = await import('yaml'), // loaded only when such folders are written
    aware = sweep.mode !== 'agnostic',
    prompt = ({ context, question }: Problem): string => (aware ? context + question : context),
    problems = new Map(
      Object.entries(tasks).flatMap(([task, all]) =>
        all.map((one) => [JSON.stringify([task, one.id]), [one, encode(prompt(one)).ids.length]] as const),
      ),
    ),
    sets = new Map(sweep.tasks.map((task) => [nameOf(task), dataSetOf(task)])),
    taken = new Map<string, number>(),
    compiled = new Map<string, CompiledPolicy>();
  for (const text of sweep.policies) compiled.set(text, compile(await policyOf(text, names)));
  const float = (x: number): object => Object.assign(new Scalar(x), { minFractionDigits: 1 });
  // kvpress does not measure perplexity
  const written = samples.filter(({ task, problem }) => !isRead(problems.get(JSON.stringify([task, problem]))![0])),
    answered = written.map((cell): Answered => {
      const { task, problem: id, policy, budget, cache, seed, answer, score } = cell;
      const [problem, length] = problems.get(JSON.stringify([task, id]))!, // samples are of these problems
        set = sets.get(task)!, // and of these tasks
        { answers } = problem,
        // as kvpress grades its own data sets
        graded =
          set.dataset === 'ruler'
            ? grade(cleanAnswer(answer), { grader: rulerGrader(set.task), answers }).score
            : BOXED.has(set.dataset)
              ? boxedScore(set.dataset, answer, answers[0])
              : score;
      const removed = removedOf(cell, length, config, compiled.get(policy)!); // samples are of these policies
      return { ...set, policy, budget, cache, seed, problem, answer, score: graded, removed };
    });
  const runs = groupBy(answered, ({ dataset, dir, policy, budget, cache, seed }) =>
    JSON.stringify([dataset, dir, policy, budget ?? null, cache ?? EXACT, seed]),
  );
  return [...runs.values()].flatMap((cells) => {
    const [{ dataset, dir, policy, budget, cache, seed }] = cells,
      known = cache === undefined ? PRESSES[policy.replaceAll(' ', '')] : undefined,
      ratio = Number(mean(cells.map(({ removed }) => removed)).toFixed(6)),
      press = known ?? fileName(`kv_${policy}${cache === undefined ? '' : ` ${cache}`}`),
      parts = [dataset, dir, fileName(model.replaceAll('/', '--')), press, ratio.toFixed(2), aware && 'query_aware'],
      name = parts.filter(Boolean).join('__'),
      times = taken.get(name) ?? 0;
    taken.set(name, times + 1);
    const config = {
      dataset,
      data_dir: dir ?? null,
      model,
      device: null,
      press_name: press,
      compression_ratio: float(ratio),
      key_channel_compression_ratio: null,
      fraction: float(1),
      max_new_tokens: sweep.maxNewTokens ?? null,
      max_context_length: null,
      query_aware: aware,
      needle_depth: null,
      compression_interval: sweep.every ?? null,
      target_size: null,
      hidden_states_buffer_size: null,
      output_dir: './results',
      log_level: 'INFO',
      model_kwargs: {},
      press_init_command: `${policy}${cache === undefined ? '' : ` in ${cache}`}${budget === undefined ? '' : ` at ${budget}`}`,
      seed,
      fp8: false,
    };
    const lines = cells.map(({ problem, task, answer, score, removed }) => [
      aware ? '' : problem.question, // empty, as in kvpress
      '',
      BOXED.has(dataset) ? problem.answers[0] : numpyStrings(problem.answers),
      task,
      sweep.maxNewTokens ?? problem.maxNewTokens,
      answer,
      pythonFloat(Number(removed.toFixed(6))),
      pythonFloat(score),
    ]);
    return Object.entries({
      [FILES.predictions]: csv([HEAD, ...lines], '\n'),
      [FILES.metrics]: metricsText(dataset, cells),
      [FILES.config]: stringify(config, { singleQuote: true, lineWidth: 80, version: '1.1' }),
      // as in kvpress, repeated runs are in numbered subfolders of the first
    }).map(([file, text]) => ({ path: join(name, times === 0 ? '' : String(times), file), text }));
  });
}

const HEAD = [
  'question',
  'answer_prefix',
  'answer',
  'task',
  'max_new_tokens',
  'predicted_answer',
  'compression_ratio',
  'score',
];

interface Answered extends DataSet, Pick<CellResult, 'policy' | 'seed' | 'answer' | 'score'> {
  readonly budget: CellResult['budget'] | undefined;
  readonly cache: CellResult['cache'] | undefined;
  readonly problem: Problem;
  /** Share of the prompt evicted. */
  readonly removed: number;
}
interface DataSet {
  readonly dataset: string;
  readonly dir?: string;
  readonly task: string;
}
function dataSetOf(task: Sweep['tasks'][number]): DataSet {
  if (typeof task === 'string') {
    const name = fileName(task.replace(/\.jsonl?$/, '')),
      // these have parts, each with metrics of its own, and a file is none of them
      dataset = name === 'ruler' || Object.hasOwn(WHOLE, name) ? `kv_${name}` : name;
    return { dataset, task: dataset };
  }
  return { dataset: RULER.test(task.task) ? 'ruler' : task.task, dir: String(task.tokens), task: task.task };
}

const fileName = (text: string): string => text.replace(/[^\w.=-]+/g, '_').slice(0, 120);

function removedOf(
  { budget, cache = EXACT }: CellResult,
  length: number,
  config: Subject['config'],
  policy: CompiledPolicy,
): number {
  if (budget === undefined) return 0;
  const kept = exactSlotsOf(budget, length, policySizes(config, cache, policy)) / length;
  return Math.max(0, 1 - kept);
}

function metricsText(dataset: string, answers: readonly Answered[]): string {
  const right = (some: typeof answers): number => mean(some.map(({ score }) => score));
  if (dataset === 'ruler') {
    const tasks = [...groupBy(answers, ({ task }) => task)].sort(([a], [b]) => (a < b ? -1 : 1)),
      parts = tasks.map(
        ([task, some]) =>
          `${JSON.stringify(task)}: {\n        "string_match": ${pythonFloat(percentOf(right(some)))}\n    }`,
      );
    return object(parts);
  }
  return object([
    `"correct": ${answers.filter(({ score }) => score === 1).length}`,
    `"answered": ${answers.filter(({ answer }) => answer.trim() !== '').length}`,
    `"accuracy": ${pythonFloat(right(answers))}`,
    `"total": ${answers.length}`,
  ]);
}

/** Formats an object as Python's `json.dump` does with `indent=4`. */
const object = (parts: readonly string[]): string => `{\n${parts.map((part) => `    ${part}`).join(',\n')}\n}`;
