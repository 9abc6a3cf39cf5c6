import type { Policy } from '@kv/core';
import type { RegistryOf } from '@kv/evaluation';
import { digest, policyOf as parsed } from '@kv/evaluation/shared';
import { armKey, FULL, isPlanned } from './types.ts';
import type { Arm, Contrast, Kind, Numbers, Plan, Planned, Task } from './types.ts';

/** Some arms on one prompt of a task. */
export interface PaperJob {
  readonly task: string;
  readonly trial: number;
  readonly arms: readonly Arm[];
}
/** Numbers by arm. */
export type ByArm = Readonly<Record<string, Numbers>>;
export interface PaperResult {
  readonly task: string;
  readonly spec: string;
  readonly trial: number;
  readonly numbers: ByArm;
  /** What its thread took. */
  readonly seconds: number;
}

/** What a row asks of a model of this kind. */
export const contrastsOf = ({ contrasts }: Planned, kind: Kind): readonly Contrast[] =>
  contrasts.filter(({ on }) => on === undefined || on === kind);
/** Every policy that a plan runs, whatever rows are asked for. */
export const policiesOf = ({ rows, tasks }: Plan): readonly string[] => [
  ...rows.filter(isPlanned).flatMap(({ contrasts }) => contrasts.flatMap(({ a, b = FULL }) => [a.policy, b.policy])),
  ...Object.values(tasks).flatMap((task) => (task.kind === 'ranks' ? [task.with] : [])),
];
/**
 * The policy of a plan's text, as `policyOf` of evaluation. Plans 2 and 3, which do not change, wrote the policy inside a
 * view as an option.
 */
export const policyOf = (text: string, names?: RegistryOf, seed?: number): Promise<Policy> =>
  parsed(text.replace(/^view\(budget=(\d+),of=(.*)\)$/, 'view($2,budget=$1)'), names, seed);
/** Prompts of a row: the plan's, unless another number is asked for. */
export const promptsOf = ({ n }: Planned, kind: Kind, asked?: number): number => asked ?? n[kind];
/** A task by what it says, so that results of a task that was changed are not taken for it. */
export const specOf = (task: Task): string => digest(task);

/** What is known of each task: trial by arm by numbers. */
export type Known = ReadonlyMap<string, readonly ByArm[]>;

/** Results merged: a trial may have been run arm by arm. */
export function known(results: readonly PaperResult[], { tasks }: Pick<Plan, 'tasks'>): Known {
  const all = new Map<string, ByArm[]>();
  for (const { task, spec, trial, numbers } of results) {
    if (!Object.hasOwn(tasks, task) || spec !== specOf(tasks[task])) continue;
    const trials = all.get(task) ?? [];
    all.set(task, trials);
    trials[trial] = { ...trials[trial], ...numbers };
  }
  return all;
}

/** The trials of a contrast so far, in order. */
export const trialsOf = (all: Known, task: string, n: number): readonly ByArm[] =>
  Array.from({ length: n }, (_, trial) => all.get(task)?.[trial] ?? {});

/**
 * What is left to run: of every task each prompt once, with all arms that the rows ask for and are not there yet; first
 * prompts first, so that what was stopped has as many of every task.
 */
export function jobsOf(
  { tasks }: Pick<Plan, 'tasks'>,
  rows: readonly Planned[],
  kind: Kind,
  asked: number | undefined,
  there: Known,
): readonly PaperJob[] {
  const wanted = rows.flatMap((row) =>
      contrastsOf(row, kind).map((contrast) => ({
        task: contrast.task,
        n: promptsOf(row, kind, asked),
        arms: armsOf(contrast),
      })),
    ),
    trials = Array.from({ length: Math.max(0, ...wanted.map(({ n }) => n)) }, (_, trial) => trial);
  return trials
    .flatMap((trial) =>
      Object.keys(tasks).map((task): PaperJob => {
        const arms = wanted.filter((one) => one.task === task && trial < one.n).flatMap((one) => one.arms),
          left = arms.filter((arm) => there.get(task)?.[trial]?.[armKey(arm)] === undefined);
        return { task, trial, arms: [...new Map(left.map((arm) => [armKey(arm), arm])).values()] };
      }),
    )
    .filter(({ arms }) => arms.length > 0);
}

/** Both arms, and the full cache beside answers: whether the model can do the task at all. */
const armsOf = ({ metric, a, b }: Contrast): readonly Arm[] => [
  ...(metric === 'hit' || metric === 'nll' ? [FULL] : []),
  a,
  ...(b ? [b] : []),
];
