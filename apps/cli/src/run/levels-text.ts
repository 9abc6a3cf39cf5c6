import { LEVELS } from '@kv/core';

/** Formats the share of slots at each level, from the finest on: `25 % q8, 75 % q4`. */
export function levelsText(levels: readonly number[]): string {
  return LEVELS.flatMap((name, level) => {
    const count = levels.filter((of) => of === level).length,
      percent = (100 * count) / levels.length;
    return count === 0 ? [] : [`${Number(percent.toFixed(percent < 1 || percent > 99 ? 1 : 0))} % ${name}`];
  }).join(', ');
}

/** Formats the share of slots at each level over heads, a range where these differ: `10 to 40 % q8, 60 to 90 % q4`. */
export function levelsOverHeads(heads: readonly (readonly number[])[]): string {
  const held = heads.filter((of) => of.length > 0);
  return LEVELS.flatMap((name, level) => {
    const shares = held.map((of) => Math.round((100 * of.filter((x) => x === level).length) / of.length)),
      [least, most] = [Math.min(...shares), Math.max(...shares)];
    return most <= 0 ? [] : [`${least === most ? most : `${least} to ${most}`} % ${name}`];
  }).join(', ');
}
