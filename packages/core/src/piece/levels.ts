import { formNames, type FormName } from './budget.ts';

/**
 * The levels at which a slot may be stored, from the finest to the coarsest: the forms of caches. What is not kept has
 * none. A slot's level is its index here.
 */
export const LEVELS: typeof formNames = formNames;

/** The name of a level. */
export type Level = FormName;

/** Shares of the kept slots, by level, whose sum is 1; what is absent is 0. Empty where they are not known. */
export type LevelShares = { readonly [L in Level]?: number | undefined };

/**
 * Returns the bytes of a kept slot on average, at most, under steps whose shares are known before the event; undefined
 * if there are none such. A slot takes the coarsest of the levels that several steps give it.
 * @param bytes returns the bytes of a slot at a level, that of the sequence's own form for a finer one
 */
export function meanSlotBytes(shares: readonly LevelShares[], bytes: (level: Level) => number): number | undefined {
  const known = shares.filter((of) => Object.keys(of).length > 0),
    means = known.map((of) => LEVELS.reduce((sum, level) => sum + (of[level] ?? 0) * bytes(level), 0));
  return means.length === 0 ? undefined : Math.min(...means);
}
