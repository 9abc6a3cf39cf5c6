import { NoRoomError } from './fit.ts';
import { chain } from './generators/chain.ts';
import { anchors, association, confusers, credentials, formats, slots } from './generators/credentials.ts';
import { arithmetic, paraphrase, repeats, updates } from './generators/memory.ts';
import { instructions, PARTS, questions } from './generators/documents.ts';
import { keyValue, lines } from './generators/records.ts';
import { cwe, fwe, needles, vt } from './generators/ruler.ts';
import type { NeedleArgs } from './generators/ruler.ts';
import type { NewProblem, Material } from './material.ts';
import type { Problem } from './problem.ts';
import { random } from './random.ts';

type Generator = (material: Material) => NewProblem;

const niah = (args: Partial<NeedleArgs> = {}): Generator =>
  needles({ haystack: 'essay', keys: 'words', values: 'numbers', k: 1, v: 1, q: 1, ...args });

/**
 * Generators by task: RULER's eleven synthetic tasks in its own configuration, tasks on anchors, formats and records,
 * on what a session remembers (paraphrases, repeats in their order, updates, examples), several questions about one
 * document (facts, instructions), and chains of steps.
 */
const generators = {
  niah_single_1: niah({ haystack: 'noise' }),
  niah_single_2: niah(),
  niah_single_3: niah({ values: 'uuids' }),
  niah_multikey_1: niah({ k: 4 }),
  niah_multikey_2: niah({ haystack: 'needle' }),
  niah_multikey_3: niah({ haystack: 'needle', keys: 'uuids', values: 'uuids' }),
  niah_multivalue: niah({ v: 4 }),
  niah_multiquery: niah({ q: 4 }),
  vt,
  cwe,
  fwe,
  longeval: lines,
  keyvalue: keyValue,
  association_high: association('high'),
  association_low: association('low'),
  tool_12: credentials(12),
  tool_32: credentials(32),
  formats,
  confusers_5: confusers(5),
  confusers_10: confusers(10),
  slots,
  anchors,
  paraphrased: paraphrase,
  ordered: repeats,
  updates,
  arithmetic,
  questions,
  instructions,
  chain,
} satisfies Readonly<Record<string, Generator>>;

/** Name of a generated task. */
export type GeneratedTask = keyof typeof generators;
/** Names of all generated tasks. */
export const generatedTasks = Object.keys(generators) as readonly GeneratedTask[];

/** Options of `generateProblems`. */
export interface GeneratedOptions extends Pick<Material, 'encode' | 'sentences' | 'tokens'> {
  /** Number of problems. */
  readonly problems: number;
  /** The same seed gives the same problems. */
  readonly seed: number | string;
}

/**
 * Generates the problems of a task; deterministic, and a smaller number of problems is a prefix of a larger one.
 * @throws RangeError for a length in which the task does not fit; it names one that has room for every problem
 */
export function generateProblems(task: GeneratedTask, { problems, ...material }: GeneratedOptions): readonly Problem[] {
  let most: NoRoomError | undefined;
  const made = Array.from({ length: problems }, (_, trial) => {
    try {
      return [generatedProblem(task, trial, material)];
    } catch (cause) {
      if (!(cause instanceof NoRoomError)) throw cause;
      if (!most || cause.least > most.least) most = cause;
      return [];
    }
  });
  if (most) throw most;
  return made.flat();
}

/** Generates one problem. @throws RangeError as `generateProblems`, and for a text with too few sentences or words */
export const generatedProblem = (
  task: GeneratedTask,
  trial: number,
  { seed, ...material }: Omit<GeneratedOptions, 'problems'>,
): Problem => {
  const parts = PARTS[task] ?? 1,
    document = Math.floor(trial / parts),
    name = `${task}/${seed}/${document}`,
    of = { ...material, trial: document, part: trial % parts, draw: random(name) };
  return { id: `${task}/${seed}/${trial}`, ...(parts > 1 && { document: name }), ...generators[task](of) };
};
