import type { FileBudget } from '../cells/types.ts';
import { bonferroni } from '@kv/tasks';
import type { PairedDifference } from '@kv/tasks';
import { agree } from '../cells/rebudget.ts';
import { atText, comparedText } from '../report/compared.ts';
import { against, groupsOf } from '../report/groups.ts';
import type { SweepGroup } from '../report/groups.ts';
import { evidenceLevel } from '../evidence-level.ts';
import { measureOf } from './measure.ts';
import type { SweepAnswers, SweepRow } from './run.ts';
import type { Sweep } from './sweep.ts';

interface Side extends Pick<SweepRow, 'policy' | 'slots' | 'cache'> {
  /** Absent if nothing is evicted. */
  readonly budget?: FileBudget;
}

/** A declared contrast on one model and task at one budget. */
export interface SweepContrast extends PairedDifference, Side {
  readonly model: string;
  readonly task: string;
  readonly against: Side;
  readonly problems: number;
  readonly evidence: ReturnType<typeof evidenceLevel>;
  /**
   * Unit of the difference: shares of right answers, or nats per token of a text that is read, where less is better.
   */
  readonly of: 'right' | 'nats';
  /** With `match`, if both evict: whether mean caches agree within the tolerance. */
  readonly matched?: boolean;
  /** With `match`: the bytes that were to agree, if not the mean caches in slots. */
  readonly bytes?: 'mean' | 'peak';
  /** p, corrected over all cells of all declared contrasts. */
  readonly bonferroni: number;
}

/**
 * Computes a sweep's declared contrasts: `policy` minus the other, paired by problem, at every budget that both have.
 */
export function sweepContrasts(
  { contrasts = [], match, part }: Pick<Sweep, 'contrasts' | 'match' | 'part'>,
  outcome: SweepAnswers,
): readonly SweepContrast[] {
  const groups = groupsOf(outcome),
    found = contrasts.flatMap(({ policy, against: other, caches }) =>
      groups
        .filter(({ row }) => row.policy === policy && (!caches || row.cache === caches[0]))
        .flatMap((one) =>
          groups
            .filter(({ row }) => row.policy === other && row.cache === (caches ? caches[1] : one.row.cache))
            .filter((two) => comparable(one, two))
            .map((two) => measured(one, two)),
        ),
    ),
    adjusted = bonferroni(found.map(({ p }) => p));
  return found.map((contrast, i) => ({ ...contrast, bonferroni: adjusted[i] }));

  function measured(one: SweepGroup, two: SweepGroup): Omit<SweepContrast, 'bonferroni'> {
    const { model, task, problems, budget, perplexity } = one.row;
    return {
      model,
      task,
      ...sideOf(one),
      against: sideOf(two),
      problems,
      evidence: evidenceLevel(problems, part),
      of: perplexity ? 'nats' : 'right',
      ...against(one, two),
      ...(match &&
        budget !== undefined &&
        two.row.budget !== undefined && {
          matched: agree(measureOf(one.row, match), measureOf(two.row, match), match.within),
          ...(match.bytes && { bytes: match.bytes }),
        }),
    };
  }
}

/**
 * Whether two rows are of one model and task at one budget; a row that evicts nothing has no budget and is compared
 * with all.
 */
const comparable = ({ row: one }: SweepGroup, { row: two }: SweepGroup): boolean =>
  one.model === two.model &&
  one.task === two.task &&
  (one.budget === two.budget || one.budget === undefined || two.budget === undefined);

const sideOf = ({ row: { policy, budget, slots, cache } }: SweepGroup): Side => ({
  policy,
  ...(cache !== undefined && { cache }),
  ...(budget !== undefined && { budget }),
  ...(slots !== undefined && { slots }),
});

/** Describes a contrast; one whose mean caches were to match and do not is neither better nor worse. */
export function contrastText({ model, task, against: other, matched, bytes, ...contrast }: SweepContrast): string {
  const sizes = bytes === undefined ? 'mean caches' : `${bytes} bytes`,
    caches = matched === undefined ? '' : `; ${sizes} ${matched ? 'agree' : 'do not agree'}`,
    compared = comparedText(`${other.policy}${atText(other)}`, contrast, contrast.bonferroni, {
      read: contrast.of === 'nats',
      matched,
    });
  return `${contrast.policy}${atText(contrast)} on ${task} on ${model}: ${compared} (${contrast.evidence}, n = ${contrast.problems})${caches}.`;
}
