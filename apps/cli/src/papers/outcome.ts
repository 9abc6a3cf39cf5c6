import { armKey, FULL } from './arms.ts';
import { contrastsOf, promptsOf, trialsOf } from './jobs.ts';
import type { Known } from './jobs.ts';
import type { Kind, Numbers, Planned } from './types.ts';
import { measure, ruled, SCREENED, shrinkage } from './verdict.ts';
import type { Measured, Verdict } from './verdict.ts';

/** A row as it came out. */
export interface Outcome {
  readonly row: Planned;
  readonly n: number;
  readonly verdict: Verdict;
  readonly measured: readonly Measured[];
  /** The full cache on the same prompts, by task: mean of the row's metric. */
  readonly full: Readonly<Record<string, number>>;
  readonly because?: string;
}

/** Right answers of the full cache below which a task is beyond the model. */
const ABLE = 0.5;

/** The verdict of a row from what is known. */
export function outcomeOf(row: Planned, kind: Kind, asked: number | undefined, all: Known): Outcome {
  const contrasts = contrastsOf(row, kind),
    n = promptsOf(row, kind, asked);
  const full = Object.fromEntries(
    contrasts.flatMap(({ task, metric }) => {
      const values = trialsOf(all, task, n).flatMap((trial): readonly number[] => {
        const value = (trial[armKey(FULL)] as Numbers | undefined)?.[metric];
        return value === undefined ? [] : [value];
      });
      return values.length === 0 ? [] : [[task, values.reduce((a, b) => a + b, 0) / values.length] as const];
    }),
  );
  const made = (measured: readonly Measured[], verdict: Verdict, because?: string): Outcome => ({
    row,
    n,
    verdict,
    measured,
    full,
    ...(because !== undefined && { because }),
  });
  if (contrasts.length === 0) return made([], 'undecided', 'nothing of this row is asked of this model');
  if (row.rule === 'shrink') {
    if (n <= SCREENED) return made([], 'undecided', `takes more than ${SCREENED} prompts, got ${n}`);
    const measured = [shrinkage(contrasts, trialsOf(all, contrasts[0].task, n))];
    return made(measured, measured[0].verdict);
  }
  const measured = contrasts.map((contrast) =>
    able(measure(contrast, trialsOf(all, contrast.task, n), contrasts.length), full),
  );
  return made(measured, ruled(row.rule, measured));
}

/** A contrast on a task that the full cache fails tells nothing. */
const able = (one: Measured, full: Readonly<Record<string, number>>): Measured =>
  one.contrast.metric === 'hit' && full[one.contrast.task] < ABLE
    ? {
        ...one,
        verdict: 'undecided',
        because: `the full cache itself has ${(100 * full[one.contrast.task]).toFixed(0)} %`,
      }
    : one;
