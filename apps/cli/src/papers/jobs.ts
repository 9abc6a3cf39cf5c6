import { digest } from '../needle/store.ts';
import { armKey, FULL } from './arms.ts';
import { isPlanned } from './types.ts';
import type { Arm, Contrast, Kind, Numbers, Plan, Planned, Task } from './types.ts';
import type { Trials } from './verdict.ts';

/** What results depend on beside the task, the trial and the arm. */
export interface Settings {
  readonly weights: string;
  readonly engine: string;
  readonly seed: number;
  /** What the plan's policies are made of: packages with their versions. */
  readonly code: readonly string[];
}
/** Some arms on one prompt of a task. */
export interface Job {
  readonly task: string;
  readonly trial: number;
  readonly arms: readonly Arm[];
}
export interface Result {
  readonly task: string;
  readonly spec: string;
  readonly trial: number;
  readonly numbers: Readonly<Record<string, Numbers>>;
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
/** Prompts of a row: the plan's, unless another number is asked for. */
export const promptsOf = ({ n }: Planned, kind: Kind, asked?: number): number => asked ?? n[kind];
/** A task by what it says, so that results of a task that was changed are not taken for it. */
export const specOf = (task: Task): string => digest(task);

/** What is known of each task: trial by arm by numbers. */
export type Known = ReadonlyMap<string, readonly Readonly<Record<string, Numbers>>[]>;

/** Results merged: a trial may have been run arm by arm. */
export function known(results: readonly Result[], plan: Pick<Plan, 'tasks'>): Known {
  const tasks = new Map<string, Readonly<Record<string, Numbers>>[]>();
  for (const { task, spec, trial, numbers } of results) {
    if (!Object.hasOwn(plan.tasks, task) || spec !== specOf(plan.tasks[task])) continue;
    const trials = tasks.get(task) ?? [];
    tasks.set(task, trials);
    trials[trial] = { ...trials[trial], ...numbers };
  }
  return tasks;
}

/** The trials of a contrast so far, in order. */
export const trialsOf = (all: Known, task: string, n: number): Trials =>
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
): readonly Job[] {
  return Object.keys(tasks)
    .flatMap((task) => {
      const wanted = rows.flatMap((row) =>
        contrastsOf(row, kind)
          .filter((contrast) => contrast.task === task)
          .map((contrast) => ({ n: promptsOf(row, kind, asked), arms: armsOf(contrast) })),
      );
      return Array.from({ length: Math.max(0, ...wanted.map(({ n }) => n)) }, (_, trial): Job => {
        const arms = new Map(
          wanted.filter(({ n }) => trial < n).flatMap(({ arms: own }) => own.map((arm) => [armKey(arm), arm] as const)),
        );
        return {
          task,
          trial,
          arms: [...arms].filter(([key]) => there.get(task)?.[trial]?.[key] === undefined).map(([, arm]) => arm),
        };
      }).filter(({ arms }) => arms.length > 0);
    })
    .sort((a, b) => a.trial - b.trial);
}

/** Both arms, and the full cache beside answers: whether the model can do the task at all. */
const armsOf = ({ metric, a, b }: Contrast): readonly Arm[] => [
  ...(metric === 'hit' || metric === 'nll' ? [FULL] : []),
  a,
  ...(b ? [b] : []),
];
