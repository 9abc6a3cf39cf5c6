import { existsSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import { KvError } from '@kv/core';
import { budgetOption, didYouMean, fitValue, isShare } from '@kv/core/engine';
import type { CacheForm } from '@kv/engine';
import type { Encode, GeneratedTask, Problem } from '@kv/tasks';
import { generateProblems, generatedTasks, heldOutBook, sentencesOf } from '@kv/tasks';
import Type from 'typebox';
import type { Static } from 'typebox';
import { Within } from '../cells/rebudget.ts';
import { GENERATION, OneBudget, OneCache } from '../cells/types.ts';
import type { FileBudget } from '../cells/types.ts';
import { readProblems } from '../files/problems.ts';
import { readJson } from '../files/read-json.ts';
import { policyOf } from '../policies.ts';
import type { PolicyNaming } from '../policies.ts';
import { readText, windows } from './text.ts';

const name = Type.String({ minLength: 1, maxLength: 10_000 });
/** Schema of a sweep file: policies, models, tasks, budgets and seeds, every one with every other. */
export const SweepFile = Type.Object(
  {
    /** A value of `--model`, optionally with a name for rows. */
    models: Type.Array(Type.Union([name, Type.Object({ name, model: name }, { additionalProperties: false })]), {
      minItems: 1,
    }),
    policies: Type.Array(name, { minItems: 1, uniqueItems: true }),
    /** Problem files, or problems generated for each model. */
    tasks: Type.Array(
      Type.Union([
        name,
        Type.Object(
          {
            task: Type.Union(generatedTasks.map((task) => Type.Literal(task))),
            tokens: Type.Integer({ minimum: 1, maximum: 2 ** 24 }),
            problems: Type.Integer({ minimum: 1, maximum: 100_000 }),
            seed: Type.Optional(Type.Integer({ minimum: 0 })),
          },
          { additionalProperties: false },
        ),
        Type.Object(
          {
            task: Type.Literal('perplexity'),
            /** A text file; otherwise the book that the embedded model has never seen. */
            text: Type.Optional(name),
            tokens: Type.Integer({ minimum: 2, maximum: 2 ** 24 }),
            problems: Type.Integer({ minimum: 1, maximum: 100_000 }),
            /** Tokens of each window that are scored, with the others in the cache. Half of the window by default. */
            read: Type.Optional(Type.Integer({ minimum: 1, maximum: 65_536 })),
          },
          { additionalProperties: false },
        ),
      ]),
      { minItems: 1 },
    ),
    /** Slots per layer and KV head, shares such as "25%" or "25% of f16", or bytes such as "64MiB". */
    budgets: Type.Array(OneBudget, { minItems: 1, uniqueItems: true }),
    /** How caches are stored: every policy at every budget in each of these forms. */
    caches: Type.Optional(Type.Array(OneCache, { minItems: 1, uniqueItems: true })),
    seeds: Type.Optional(
      Type.Array(Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER }), { minItems: 1, uniqueItems: true }),
    ),
    /** Ask only the dev or only the confirmation problems of the protocol's split. */
    part: Type.Optional(Type.Union([Type.Literal('dev'), Type.Literal('confirm')])),
    /**
     * Policies to compare with each other, in addition to the full cache, at every budget that both have: in one form,
     * or the first in the first of two forms with the second in the second.
     */
    contrasts: Type.Optional(
      Type.Array(
        Type.Object(
          {
            policy: name,
            against: name,
            caches: Type.Optional(Type.Array(OneCache, { minItems: 2, maxItems: 2 })),
          },
          { additionalProperties: false },
        ),
        { minItems: 1, uniqueItems: true },
      ),
    ),
    /**
     * Give every policy the budget at which its mean cache equals this policy's, in slots or, with `bytes`, in mean or
     * peak bytes, in the first of `caches`; budgets are then slots or bytes.
     */
    match: Type.Optional(
      Type.Object(
        {
          policy: name,
          within: Type.Optional(Within),
          bytes: Type.Optional(Type.Union([Type.Literal('mean'), Type.Literal('peak')])),
        },
        { additionalProperties: false },
      ),
    ),
    ...GENERATION,
  },
  { additionalProperties: false },
);
interface Sized {
  readonly tokens: number;
  readonly problems: number;
}
type SweepTask =
  | string
  | (Sized & { readonly task: GeneratedTask; readonly seed?: number })
  | (Sized & { readonly task: 'perplexity'; readonly text?: string; readonly read?: number });
/** A sweep file, read and checked. */
export type Sweep = Omit<Static<typeof SweepFile>, 'budgets' | 'caches' | 'tasks'> & {
  readonly budgets: readonly FileBudget[];
  readonly caches?: readonly CacheForm[];
  readonly tasks: readonly SweepTask[];
};

const BUDGET = budgetOption('A budget.');

/**
 * Reads a sweep file.
 * @param called what errors call the file
 * @param forms replaces its `caches`
 * @throws KvError in one sentence
 */
export function readSweep(path: string, called: string, forms?: readonly CacheForm[]): Sweep {
  const read = readJson(path, called, SweepFile),
    sweep = { ...read, ...(forms && { caches: forms }) },
    { contrasts = [], match, models, policies, budgets, caches = [] } = sweep,
    names = models.map((model) => modelOf(model).name),
    known = (field: string, policy: string): void => {
      if (!policies.includes(policy))
        throw new KvError(called, `${field} must be one of policies, got ${JSON.stringify(policy.slice(0, 80))}`);
    };
  if (new Set(names).size < names.length)
    throw new KvError(called, `models must have different names, got ${names.join(', ')}`);
  if (match) known('match.policy', match.policy);
  for (const [i, { policy, against, caches: pair = [] }] of contrasts.entries()) {
    known(`contrasts.${i}.policy`, policy);
    known(`contrasts.${i}.against`, against);
    const other = pair.find((form) => !caches.includes(form));
    if (other !== undefined)
      throw new KvError(
        called,
        `contrasts.${i}.caches must be two of caches${caches.length > 0 ? ` (${caches.join(', ')})` : ''}, got "${other}"`,
      );
    if (policy === against && pair[0] === pair[1])
      throw new KvError(
        called,
        `contrasts.${i}.against must be another than its policy, got ${JSON.stringify(against.slice(0, 80))}`,
      );
  }
  for (const [i, budget] of budgets.entries()) fitValue(`${called}, budgets.${i}`, BUDGET, budget);
  if (match && budgets.some(isShare))
    throw new KvError(called, 'budgets must be numbers of slots or bytes where match is given, got a share');
  return sweep as Sweep; // its budgets were read, its forms and tasks are known ones
}

/** Returns a warning if the sweep answers confirmation ids. */
export const confirmNote = ({ part, tasks }: Pick<Sweep, 'part' | 'tasks'>): string | undefined =>
  part === 'confirm' || (part === undefined && tasks.some((task) => typeof task === 'string'))
    ? `${part === undefined ? "a sweep without part answers every id, those that 'kv protocol' would confirm on included" : "part confirm answers the ids that 'kv protocol' would confirm on"}; its ledger does not count this as a look at them`
    : undefined;

/** Returns the name in rows and the `--model` value of a model. */
export const modelOf = (model: Sweep['models'][number]): { readonly name: string; readonly model: string } =>
  typeof model === 'string' ? { name: model, model } : model;

/** Checks the policies of a sweep. @throws KvError that names the first invalid one */
export async function checkPolicies({ policies }: Sweep, called: string, names?: PolicyNaming['names']): Promise<void> {
  for (const [i, text] of policies.entries())
    await policyOf(text, names).catch((cause: unknown) => {
      if (!KvError.is(cause)) throw cause;
      throw new KvError(called, `policies.${i}: ${cause.message.replace(/^policy: /, '')}`);
    });
}

/**
 * Returns the problems of a sweep's tasks by task name; generated ones are sized with this tokenizer.
 * @param path the sweep file, from which paths of tasks are resolved
 * @throws KvError for a file that cannot be read, or a task that does not fit
 */
export async function sweepTasks(
  { tasks }: Sweep,
  path: string,
  encode: Encode,
): Promise<Readonly<Record<string, readonly Problem[]>>> {
  const book = await heldOutBook(),
    sentences = sentencesOf(book),
    found: Record<string, readonly Problem[]> = {};
  for (const task of tasks) {
    const called = nameOf(task);
    if (Object.hasOwn(found, called)) throw new KvError('tasks', `expected each task once, got ${called} twice`);
    found[called] =
      typeof task === 'string'
        ? problemsOf(task, resolve(dirname(path), task))
        : task.task === 'perplexity'
          ? windows(task.text === undefined ? book : readText(resolve(dirname(path), task.text), task.text), called, {
              encode,
              tokens: task.tokens,
              read: task.read ?? Math.floor(task.tokens / 2),
              problems: task.problems,
            })
          : made(called, () =>
              generateProblems(task.task, {
                encode,
                sentences,
                tokens: task.tokens,
                problems: task.problems,
                seed: task.seed ?? 0,
              }),
            );
  }
  return found;
}

/** Reads a file of problems. @throws KvError as `readProblems`, and for a word that no file has: what a task may be */
function problemsOf(task: string, path: string): readonly Problem[] {
  if (/^\w+$/.test(task) && !existsSync(path))
    throw new KvError(
      'tasks',
      `expected a file of problems, or one that is made, such as { "task": "niah_single_1", "tokens": 512, "problems": 20 }${didYouMean(task, generatedTasks) || ` (there are ${generatedTasks.join(', ')})`}, got "${task}"`,
    );
  return readProblems(path, task);
}

/** Returns a task's name in rows and answers. */
export const nameOf = (task: Sweep['tasks'][number]): string =>
  typeof task === 'string'
    ? task
    : task.task === 'perplexity'
      ? `perplexity${task.text === undefined ? '' : ` of ${task.text}`}@${task.tokens}`
      : `${task.task}@${task.tokens}/${task.seed ?? 0}`;

function made(called: string, make: () => readonly Problem[]): readonly Problem[] {
  try {
    return make();
  } catch (cause) {
    throw cause instanceof RangeError ? new KvError(called, cause.message) : cause;
  }
}
