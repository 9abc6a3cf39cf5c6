import { mean, percent } from '@kv/evaluation/shared';
import { contrastsOf, promptsOf, trialsOf } from './jobs.ts';
import type { Known } from './jobs.ts';
import { armKey, FULL } from './types.ts';
import type { Kind, Planned } from './types.ts';
import { measure, ruled, SCREENED, shrinkage } from './verdict.ts';
import type { Measured, Verdict } from './verdict.ts';

/** The outcome of a row. */
export interface Outcome {
  readonly row: Planned;
  readonly n: number;
  readonly verdict: Verdict;
  readonly measured: readonly Measured[];
  /** Mean of the row's metric for the full cache on the same prompts, by task. */
  readonly full: Readonly<Record<string, number>>;
  readonly because?: string;
}

/** That share in plans that state none. */
const ABLE = 0.5;

/**
 * Returns the outcome of a row, given the results so far.
 *
 * @param least share of right answers of the full cache below which a task is beyond the model
 */
export function outcomeOf(row: Planned, kind: Kind, asked: number | undefined, all: Known, least = ABLE): Outcome {
  const contrasts = contrastsOf(row, kind),
    n = promptsOf(row, kind, asked);
  const full = Object.fromEntries(
    contrasts.flatMap(({ task, metric }) => {
      const values = trialsOf(all, task, n).flatMap((trial) => trial[armKey(FULL)]?.[metric] ?? []);
      return values.length === 0 ? [] : [[task, mean(values)] as const];
    }),
  );
  const undecided = (because: string): Outcome => ({ row, n, verdict: 'undecided', measured: [], full, because });
  if (contrasts.length === 0) return undecided('nothing of this row is asked of this model');
  if (row.rule === 'shrink' && n <= SCREENED) return undecided(`takes more than ${SCREENED} prompts, got ${n}`);
  const measured =
    row.rule === 'shrink'
      ? [shrinkage(contrasts, trialsOf(all, contrasts[0].task, n))]
      : contrasts.map((contrast) =>
          able(measure(contrast, trialsOf(all, contrast.task, n), contrasts.length), full, least),
        );
  return { row, n, verdict: ruled(row.rule, measured), measured, full };
}

/** Makes a contrast undecided if the full cache fails its task. */
const able = (one: Measured, full: Outcome['full'], least: number): Measured =>
  one.contrast.metric === 'hit' && full[one.contrast.task] < least
    ? { ...one, verdict: 'undecided', because: `the full cache itself has ${percent(full[one.contrast.task])}` }
    : one;
