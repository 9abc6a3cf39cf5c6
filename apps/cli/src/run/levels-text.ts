import { LEVELS } from '@kv/core';

/** Formats the share of slots at each level, from the finest on: `25 % q8, 75 % q4`. */
export function levelsText(levels: readonly number[]): string {
  return LEVELS.flatMap((name, level) => {
    const count = levels.filter((of) => of === level).length,
      percent = (100 * count) / levels.length;
    return count === 0 ? [] : [`${Number(percent.toFixed(percent < 1 || percent > 99 ? 1 : 0))} % ${name}`];
  }).join(', ');
}
