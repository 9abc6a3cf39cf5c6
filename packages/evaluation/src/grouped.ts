import { pairedDifference, wilson } from '@kv/tasks';
import type { Interval } from '@kv/tasks';
import type { CellResult } from './cells/types.ts';

/** Items by a key, in the order in which keys come. */
export function groupBy<T>(items: readonly T[], keyOf: (item: T) => string): Map<string, readonly T[]> {
  const groups = new Map<string, T[]>();
  for (const item of items) {
    const key = keyOf(item),
      group = groups.get(key);
    if (group) group.push(item);
    else groups.set(key, [item]);
  }
  return groups;
}

/** A number of the answers to each problem. @defaultValue the score */
export const byProblem = (
  cells: readonly CellResult[],
  number: (cell: CellResult) => number = ({ score }) => score,
): readonly (readonly number[])[] =>
  [...groupBy(cells, ({ problem }) => problem).values()].map((some) => some.map(number));

/**
 * 95 % interval of a mean of scores by problem: Wilson's where all answers of a problem are right or all are wrong, as
 * one is and as several seeds at temperature 0 are, else the bootstrap over problems. `n` is that of problems.
 */
export function intervalOf(problems: readonly (readonly number[])[]): Interval {
  const alike = (share: 0 | 1): number => problems.filter((scores) => scores.every((score) => score === share)).length;
  if (alike(0) + alike(1) === problems.length) return wilson(alike(1), problems.length);
  const { low, high } = pairedDifference(problems);
  return { low, high };
}
