import { pairedDifference, wilson } from '@kv/tasks';
import type { Interval } from '@kv/tasks';
import type { CellResult } from './cells/types.ts';

/** Groups items by a key, in the order in which keys first occur. */
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

/** Cuts a list into parts of `size` items, the last one of what is left. */
export const partsOf = <T>(all: readonly T[], size: number): readonly (readonly T[])[] =>
  Array.from({ length: Math.ceil(all.length / size) }, (_, i) => all.slice(size * i, size * (i + 1)));

/** Returns the document of an answer's problem: the problem itself, where it is the only one of its document. */
export const documentOf = ({ document, problem }: Pick<CellResult, 'document' | 'problem'>): string =>
  document ?? problem;

/** Returns a number of each answer, grouped by document. @defaultValue the score */
export const byProblem = (
  cells: readonly CellResult[],
  number: (cell: CellResult) => number = ({ score }) => score,
): readonly (readonly number[])[] => [...groupBy(cells, documentOf).values()].map((some) => some.map(number));

/**
 * Returns the 95 % interval of a mean of scores grouped by document: Wilson's if all have as many answers and those of
 * every one are all right or all wrong, as with one answer or with several seeds at temperature 0; else the bootstrap
 * over documents, or, where all say the same, what as many leave open. `n` is the number of documents.
 */
export function intervalOf(problems: readonly (readonly number[])[]): Interval {
  const alike = (share: 0 | 1): number => problems.filter((scores) => scores.every((score) => score === share)).length,
    even = problems.every(({ length }) => length === problems[0].length);
  // the mean is over answers: of documents with more or fewer of them it is no share of documents
  if (even && alike(0) + alike(1) === problems.length) return wilson(alike(1), problems.length);
  const { low, high } = pairedDifference(problems, { within: [0, 1] });
  return { low, high };
}
