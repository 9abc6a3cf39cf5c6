import { number } from '@kv/core';

export const beta = number(20, 'Steepness: the last layer gets (M - W) / beta above the window W.', { least: 1 });

/** Rounds a number of slots to one decimal, for notes. */
export const tenths = (slots: number): number => Number(slots.toFixed(1));

/**
 * Returns the authors' line over layers with mean `above`, from 2 above - above / beta down, or from `most` where that
 * is less.
 */
export function line(above: number, most: number, steepness: number, layers: number): number[] {
  const top = Math.min(2 * above - above / steepness, most);
  const bottom = 2 * above - top;
  return Array.from({ length: layers }, (_, l) => top - (l * (top - bottom)) / (layers - 1));
}
