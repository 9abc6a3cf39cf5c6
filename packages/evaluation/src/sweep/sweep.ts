import { dirname, resolve } from 'node:path';
import { KvError, slotsOf } from '@kv/core';
import type { Budget } from '@kv/models';
import type { Encode, GeneratedTask, Problem } from '@kv/tasks';
import { generateProblems, generatedTasks, heldOutBook, sentencesOf } from '@kv/tasks';
import Type from 'typebox';
import type { Static } from 'typebox';
import { Within } from '../cells/rebudget.ts';
import { GENERATION, OneBudget } from '../cells/types.ts';
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
    /** Slots per layer and KV head, or shares such as "25%". */
    budgets: Type.Array(OneBudget, { minItems: 1, uniqueItems: true }),
    seeds: Type.Optional(
      Type.Array(Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER }), { minItems: 1, uniqueItems: true }),
    ),
    /** Ask only the dev or only the confirmation problems of the protocol's split. */
    part: Type.Optional(Type.Union([Type.Literal('dev'), Type.Literal('confirm')])),
    /** Policies to compare with each other, in addition to the full cache, at every budget that both have. */
    contrasts: Type.Optional(
      Type.Array(Type.Object({ policy: name, against: name }, { additionalProperties: false }), {
        minItems: 1,
        uniqueItems: true,
      }),
    ),
    /** Give every policy the budget at which its mean cache equals this policy's; budgets are then slots. */
    match: Type.Optional(Type.Object({ policy: name, within: Type.Optional(Within) }, { additionalProperties: false })),
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
export type Sweep = Omit<Static<typeof SweepFile>, 'budgets' | 'tasks'> & {
  readonly budgets: readonly Budget[];
  readonly tasks: readonly SweepTask[];
};

/**
 * Reads a sweep file.
 * @param called what errors call the file
 * @throws KvError in one sentence
 */
export function readSweep(path: string, called: string): Sweep {
  const sweep = readJson(path, called, SweepFile),
    { contrasts = [], match, models, policies, budgets } = sweep,
    names = models.map((model) => modelOf(model).name),
    known = (field: string, policy: string): void => {
      if (!policies.includes(policy))
        throw new KvError(called, `${field} must be one of policies, got ${JSON.stringify(policy.slice(0, 80))}`);
    };
  if (new Set(names).size < names.length)
    throw new KvError(called, `models must have different names, got ${names.join(', ')}`);
  if (match) known('match.policy', match.policy);
  for (const [i, { policy, against }] of contrasts.entries()) {
    known(`contrasts.${i}.policy`, policy);
    known(`contrasts.${i}.against`, against);
    if (policy === against)
      throw new KvError(
        called,
        `contrasts.${i}.against must be another than its policy, got ${JSON.stringify(against.slice(0, 80))}`,
      );
  }
  for (const [i, budget] of budgets.entries()) checkShare(budget as Budget, `${called}, budgets.${i}`);
  if (match && budgets.some((budget) => typeof budget === 'string'))
    throw new KvError(called, 'budgets must be numbers of slots where match is given, got a share');
  return sweep as Sweep; // its shares match the pattern of budgets, its tasks are known ones
}

/** Returns a warning if the sweep answers confirmation ids. */
export const confirmNote = ({ part, tasks }: Pick<Sweep, 'part' | 'tasks'>): string | undefined =>
  part === 'confirm' || (part === undefined && tasks.some((task) => typeof task === 'string'))
    ? `${part === undefined ? 'without part, ids to confirm on are answered too' : 'part confirm answers ids to confirm on'}, and no ledger of kv protocol counts that as a look`
    : undefined;

/** Returns the name in rows and the `--model` value of a model. */
export const modelOf = (model: Sweep['models'][number]): { readonly name: string; readonly model: string } =>
  typeof model === 'string' ? { name: model, model } : model;

/** @throws KvError for a share of 0 or above 100% */
function checkShare(budget: Budget, at: string): void {
  try {
    slotsOf(budget, 1);
  } catch (cause) {
    throw KvError.is(cause) ? new KvError(at, cause.message.replace(/^budget: /, '')) : cause;
  }
}

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
        ? readProblems(resolve(dirname(path), task), task)
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
