import { pairedDifference, wilson } from '@kv/tasks';
import type { Interval } from '@kv/tasks';

/** Items by a key, in the order in which keys come. */
export function grouped<T>(items: readonly T[], keyOf: (item: T) => string): Map<string, readonly T[]> {
  const groups = new Map<string, T[]>();
  for (const item of items) {
    const key = keyOf(item),
      group = groups.get(key);
    if (group) group.push(item);
    else groups.set(key, [item]);
  }
  return groups;
}

/** Wilson's interval where a problem has one answer that is right or wrong, else the bootstrap over problems. */
export function intervalOf(each: readonly (readonly number[])[]): Interval {
  return each.every(([score, ...more]) => more.length === 0 && (score === 0 || score === 1))
    ? wilson(each.filter(([score]) => score === 1).length, each.length)
    : pairedDifference(each);
}
