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
/** Measurements by arm. */
export type ByArm = Readonly<Record<string, Numbers>>;
export interface PaperResult {
  readonly task: string;
  readonly spec: string;
  readonly trial: number;
  readonly numbers: ByArm;
  /** Seconds of its thread. */
  readonly seconds: number;
}

/** Returns the contrasts of a row for a model of this kind. */
export const contrastsOf = ({ contrasts }: Planned, kind: Kind): readonly Contrast[] =>
  contrasts.filter(({ on }) => on === undefined || on === kind);
/** Present names of the pieces that plans 1 to 3 name otherwise. */
const PRESENT: Readonly<Record<string, string>> = {
  clip: 'clipToRange',
  dots: 'queryKeyProducts',
  standout: 'unitLogMinMax',
};
/** What pieces of plans 1 to 5 did by default before it became an option; later plans write the option out. */
const FORMER: Readonly<Record<string, string>> = {
  cis: 'among=retrievers',
  cpe: 'among=retrievers',
  crystalcache: 'edges=either',
  trunks: 'edges=either',
  taFast: 'reach=6',
};
/** Writes the former default of a piece where its options do not say otherwise. */
const asBefore = (policy: string): string =>
  policy.replace(
    /\b(cis|cpe|crystalcache|trunks|taFast)\b(?:\(([^()]*)\)|(?!\())/g,
    (whole, name: string, options = '') =>
      options.includes(`${FORMER[name].split('=')[0]}=`)
        ? whole
        : `${name}(${[options, FORMER[name]].filter(Boolean).join(',')})`,
  );
/**
 * Returns a policy of a plan in the present form. Plans do not change: some use former names of pieces, plans 2 and 3
 * wrote the policy inside a view as an option, and plans 1 to 5 mean what their pieces did then.
 */
const presentForm = (policy: string): string =>
  asBefore(
    policy
      .replace(/^view\(budget=(\d+),of=(.*)\)$/, 'view($2,budget=$1)')
      .replace(/\b(?:clip|dots|standout)\b/g, (name) => PRESENT[name]),
  );
/** Returns every policy of a plan in the present form, whichever rows are asked for. */
export const policiesOf = ({ rows, tasks }: Plan): readonly string[] =>
  [
    ...rows.filter(isPlanned).flatMap(({ contrasts }) => contrasts.flatMap(({ a, b = FULL }) => [a.policy, b.policy])),
    ...Object.values(tasks).flatMap((task) => (task.kind === 'ranks' ? [task.with] : [])),
  ].map(presentForm);
/** Parses a policy of a plan like `policyOf` of evaluation. */
export const policyOf = (text: string, names?: RegistryOf, seed?: number): Promise<Policy> =>
  parsed(presentForm(text), names, seed);
/** Returns the number of prompts of a row: the plan's, unless another is asked for. */
export const promptsOf = ({ n }: Planned, kind: Kind, asked?: number): number => asked ?? n[kind];
/** Returns the digest of a task, so that results of a changed task are not reused. */
export const specOf = (task: Task): string => digest(task);

/** Results of each task: trial by arm by metric. */
export type Known = ReadonlyMap<string, readonly ByArm[]>;

/** Merges results, since a trial may have been run arm by arm. */
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

/** Returns the trials of a contrast so far, in order. */
export const trialsOf = (all: Known, task: string, n: number): readonly ByArm[] =>
  Array.from({ length: n }, (_, trial) => all.get(task)?.[trial] ?? {});

/**
 * Returns the remaining jobs: each prompt of every task once, with all arms that rows ask for and that have no result
 * yet; first prompts first, so that a stopped run has equally many of every task.
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

/** Returns both arms and, for answers, also the full cache, which shows whether the model can do the task at all. */
const armsOf = ({ metric, a, b }: Contrast): readonly Arm[] => [
  ...(metric === 'hit' || metric === 'nll' ? [FULL] : []),
  a,
  ...(b ? [b] : []),
];
