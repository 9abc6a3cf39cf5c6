import { pairedTest } from '@kv/tasks';
import type { Interval } from '@kv/tasks';
import { EXACT } from '../cells/types.ts';
import type { CellResult } from '../cells/types.ts';
import { natsOf } from '../cells/perplexity.ts';
import { byProblem, intervalOf } from '../grouped.ts';
import { pairedByProblem } from '../protocol/statistics.ts';
import type { SweepAnswers, SweepRow } from '../sweep/run.ts';

/** A row of a sweep with the cells that it summarizes. */
export interface SweepGroup {
  readonly row: SweepRow;
  readonly cells: readonly CellResult[];
  readonly interval: Interval;
}

/** Returns the rows of a sweep, each with its cells. */
export const groupsOf = ({ rows, samples }: SweepAnswers): readonly SweepGroup[] =>
  rows.map((row) => {
    const budget = row.slots ?? row.budget,
      cells = samples[row.model].filter(
        (cell) =>
          cell.task === row.task &&
          cell.policy === row.policy &&
          cell.budget === budget &&
          (cell.cache ?? EXACT) === (row.cache ?? EXACT),
      );
    return {
      row,
      cells,
      interval: row.interval ?? intervalOf(byProblem(cells)),
    };
  });

/** Returns the group to compare with: the one that keeps and reads everything, of the same model, task and form of cache. */
export const wholeOf = (group: SweepGroup, all: readonly SweepGroup[]): SweepGroup | undefined =>
  all.find(
    ({ row }) =>
      row.model === group.row.model &&
      row.task === group.row.task &&
      row.cache === group.row.cache &&
      row.budget === undefined &&
      !row.alters,
  );

/** Whether the budget was large enough for every prompt and answer, so that the policy did nothing. */
export const evictedNothing = ({ row }: SweepGroup, { row: whole }: SweepGroup): boolean =>
  !row.alters && row.meanSlots === whole.meanSlots && row.peakSlots === whole.peakSlots;

/** Compares a row with the full cache, paired by problem: scores, or nats per token of a text that is read. */
export const against = (group: SweepGroup, whole: SweepGroup): ReturnType<typeof pairedTest> =>
  group.row.perplexity
    ? pairedTest(pairedByProblem(group.cells, whole.cells, natsOf))
    : pairedTest(pairedByProblem(group.cells, whole.cells), { within: [-1, 1] });

/** Counts of wrong answers by cause. */
export interface Failures {
  readonly wrong: number;
  /** The full cache is wrong too. */
  readonly beyond: number;
  /** The full cache is right, and every KV head of every layer holds all of the answer's tokens: the model failed. */
  readonly all: number;
  /**
   * The full cache is right, and some heads hold them all: model or cache may have failed, as few heads can be enough.
   */
  readonly some: number;
  /** The full cache is right, and no head holds them all: the cache lost the answer. */
  readonly none: number;
  /** The full cache is right, and the answer does not occur in the prompt. */
  readonly unknown: number;
}

/** Classifies wrong answers by the number of heads that held the answer's tokens when it began. */
export function failures(group: SweepGroup, whole: SweepGroup | undefined): Failures {
  const right = new Map(whole?.cells.map(({ problem, seed, score }) => [JSON.stringify([problem, seed]), score])),
    count = { wrong: 0, beyond: 0, all: 0, some: 0, none: 0, unknown: 0 };
  for (const { problem, seed, score, evidence } of group.cells) {
    if (score >= 1) continue;
    count.wrong++;
    const full = right.get(JSON.stringify([problem, seed]));
    if (full !== undefined && full < 1) count.beyond++;
    else if (evidence.answerKept === undefined) count.unknown++;
    else count[evidence.answerKept === 1 ? 'all' : evidence.answerKept > 0 ? 'some' : 'none']++;
  }
  return count;
}
