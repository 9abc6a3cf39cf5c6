import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { KvError } from '@kv/core';
import { grade } from '@kv/tasks';
import type { Interval } from '@kv/tasks';
import { parseJson } from '@kv/checkpoints';
import Type from 'typebox';
import type { Static } from 'typebox';
import { checkShape } from '../files/check-shape.ts';
import { fileBytes } from '../files/read-json.ts';
import { withFileErrors } from '../jobs/whole-file.ts';
import { mean } from '../numbers.ts';
import { groupBy, intervalOf } from '../grouped.ts';
import { stringsOf } from './python.ts';
import {
  BOXED,
  boxedScore,
  cleanAnswer,
  Config,
  CountedMetrics,
  FILES,
  percentOf,
  rulerGrader,
  RulerMetrics,
  WHOLE,
} from './shape.ts';

/** A result of another library, in the columns of our rows. */
export interface OtherRow {
  readonly model: string;
  readonly task: string;
  /** Such as `kvpress: snapkv`. */
  readonly policy: string;
  /** Share kept, such as `50%`; absent if nothing is evicted. */
  readonly budget?: string;
  readonly samples: number;
  readonly accuracy: number;
  readonly unparsed: number;
  /** 95 % interval; absent if single answers cannot be graded here. */
  readonly interval?: Interval;
}

type Settings = Static<typeof Config>;
interface Graded {
  readonly task: string;
  readonly score: number;
  readonly said: boolean;
}

/**
 * Reads kvpress' result folders: those in a folder, or the folder itself.
 * @param called what errors call the folder
 * @throws KvError in one sentence
 */
export async function readKvpress(path: string, called: string): Promise<readonly OtherRow[]> {
  const folders = withFileErrors(called, () => resultFolders(path)),
    rows: OtherRow[] = [];
  if (folders.length === 0)
    throw new KvError(called, `expected result folders of kvpress, with ${Object.values(FILES).join(', ')}, got none`);
  for (const folder of folders) rows.push(...(await rowsOf(join(path, folder), join(called, folder))));
  return rows;
}

/** Finds folders with any of the three files, by name; repeated runs are in numbered subfolders of the first. */
function resultFolders(path: string, at = '', depth = 0): readonly string[] {
  const is = Object.values(FILES).some((file) => existsSync(join(path, at, file))),
    inside = readdirSync(join(path, at), { withFileTypes: true }).filter((entry) => entry.isDirectory());
  const deeper = depth > 2 ? [] : inside.map(({ name }) => name).sort();
  return [...(is ? [at] : []), ...deeper.flatMap((name) => resultFolders(path, join(at, name), depth + 1))];
}

async function rowsOf(path: string, called: string): Promise<readonly OtherRow[]> {
  const file = (name: string): [path: string, called: string] => [join(path, name), join(called, name)],
    config = await configOf(...file(FILES.config)),
    lines = await linesOf(...file(FILES.predictions)),
    [metricsPath, metricsName] = file(FILES.metrics),
    metrics = parseJson(fileBytes(metricsPath, metricsName, true), metricsName),
    whole = wholeMetric(config, metrics, metricsName);
  const { dataset, data_dir, model, press_name, query_aware } = config,
    name = [dataset, data_dir ?? ''].filter((part) => part !== '').join('/'),
    budget = budgetOf(config),
    arm = {
      model,
      policy: `kvpress: ${press_name}${query_aware ? ', query-aware' : ''}`,
      ...(budget !== undefined && { budget }),
    };
  if (whole !== undefined) {
    const unparsed = mean(lines.map(({ predicted_answer = '' }) => Number(predicted_answer.trim() === '')));
    return [{ ...arm, task: name, samples: lines.length, accuracy: whole, unparsed }];
  }
  const graded = lines.map((line, i) => gradedOf(config, line, `${join(called, FILES.predictions)}, row ${i + 1}`));
  const rows = [...groupBy(graded, ({ task }) => task)].map(([task, some]): OtherRow & { readonly own: string } => ({
    ...arm,
    own: task,
    task: task === '' ? name : `${name}/${task}`,
    samples: some.length,
    accuracy: mean(some.map(({ score }) => score)),
    unparsed: mean(some.map(({ said }) => Number(!said))),
    interval: intervalOf(some.map(({ score }) => [score])),
  }));
  checkMetrics(config, rows, metrics, metricsName);
  return rows.map(({ own: _, ...row }) => row);
}

async function configOf(path: string, called: string): Promise<Settings> {
  const { parse } = await import('yaml'), // loaded only when such folders are read
    text = new TextDecoder().decode(fileBytes(path, called, true));
  let config: unknown;
  try {
    config = parse(text, { logLevel: 'error' });
  } catch (cause) {
    throw new KvError(called, `expected YAML, got ${firstLine(cause)}`);
  }
  checkShape(config, Config, called);
  return config;
}

async function linesOf(path: string, called: string): Promise<readonly Readonly<Record<string, string>>[]> {
  const { parse } = await import('csv-parse/sync'),
    bytes = fileBytes(path, called, true);
  let rows: string[][];
  try {
    rows = parse(Buffer.from(bytes), { bom: true });
  } catch (cause) {
    throw new KvError(called, `expected CSV, got ${firstLine(cause)}`);
  }
  const [head = [], ...lines] = rows;
  if (!head.includes('predicted_answer')) throw new KvError(called, 'expected a column predicted_answer, got none');
  if (lines.length === 0) throw new KvError(called, 'expected at least one answer, got none');
  return lines.map((cells) => Object.fromEntries(cells.map((cell, i) => [head[i], cell])));
}

const firstLine = (cause: unknown): string => (cause as Error).message.split('\n')[0];

/** Returns the share kept, as our rows write it. */
function budgetOf({ press_name, compression_ratio, threshold, head_compression_ratio }: Settings): string | undefined {
  if (threshold !== undefined) return `threshold ${threshold}`;
  if (head_compression_ratio !== undefined) return `${kept(head_compression_ratio)} of the heads`;
  return press_name === 'no_press' || !compression_ratio ? undefined : kept(compression_ratio);
}
const kept = (removed: number): string => `${Number((100 * (1 - removed)).toFixed(4))}%`;

function wholeMetric({ dataset }: Settings, metrics: unknown, called: string): number | undefined {
  const most = Object.hasOwn(WHOLE, dataset) ? WHOLE[dataset] : undefined;
  if (most === undefined) return undefined;
  const shape = Type.Number({ minimum: 0, maximum: most });
  checkShape(metrics, shape, called);
  return metrics / most;
}

function gradedOf({ dataset }: Settings, line: Readonly<Record<string, string>>, place: string): Graded {
  const { predicted_answer: said, answer = '', task = '', score } = line,
    asked = { said: said.trim() !== '' };
  if (dataset === 'ruler') {
    const answers = stringsOf(answer);
    if (!answers?.length)
      throw new KvError(place, `expected a list of answers, got ${JSON.stringify(answer.slice(0, 60))}`);
    if (task === '') throw new KvError(place, 'expected a task, got none');
    return { ...asked, task, score: grade(cleanAnswer(said), { grader: rulerGrader(task), answers }).score };
  }
  if (BOXED.has(dataset)) return { ...asked, task: '', score: boxedScore(dataset, said, answer) };
  const own = score === undefined || score.trim() === '' ? NaN : Number(score);
  if (!(own >= 0 && own <= 1))
    throw new KvError(
      place,
      `expected a score from 0 to 1, since ${JSON.stringify(dataset.slice(0, 60))} is none of ruler, math500, aime25, longbench, infinitebench, got ${JSON.stringify(score ?? null)}`,
    );
  return { ...asked, task: '', score: own };
}

/** @throws KvError if the metrics do not match the answers: one of the files is damaged, or of another run */
function checkMetrics(
  { dataset }: Settings,
  rows: readonly (OtherRow & { readonly own: string })[],
  metrics: unknown,
  called: string,
): void {
  const differ = (what: string, want: number, got: number | string): KvError =>
    new KvError(called, `expected ${what} ${want}, as ${FILES.predictions} has it, got ${got}`);
  if (dataset !== 'ruler') {
    checkShape(metrics, CountedMetrics, called);
    const [{ accuracy, samples }] = rows;
    if (metrics.total !== samples) throw differ('total', samples, metrics.total);
    if (Math.abs(metrics.accuracy - accuracy) > 1e-6) throw differ('accuracy', accuracy, metrics.accuracy);
    return;
  }
  checkShape(metrics, RulerMetrics, called);
  if (Object.keys(metrics).length !== rows.length) throw differ('tasks', rows.length, Object.keys(metrics).length);
  for (const { own, accuracy } of rows) {
    const got = Object.hasOwn(metrics, own) ? metrics[own].string_match : 'none';
    if (!(Math.abs(Number(got) - percentOf(accuracy)) < 0.011))
      throw differ(`string_match of ${own}`, percentOf(accuracy), got);
  }
}
