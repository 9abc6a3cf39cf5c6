import type { DraftSelection } from '../piece/atoms.ts';

/** Formats a piece that forces slots, with its numeric options: `snapkv(window=64,kernel=5)`. */
export function forcerOf(name: string, options: Readonly<Record<string, unknown>>): string {
  const set = Object.entries(options).flatMap(([key, x]) => (typeof x === 'number' ? [`${key}=${x}`] : []));
  return set.length === 0 ? name : `${name}(${set.join(',')})`;
}

/** Returns the pieces that force slots in the drafts, each once; undefined if there are none. */
export const forcersOf = (...drafts: readonly Pick<DraftSelection, 'forcedBy'>[]): readonly string[] | undefined => {
  const all = new Set(drafts.flatMap(({ forcedBy = [] }) => forcedBy));
  return all.size === 0 ? undefined : [...all];
};

/** Stands for a number of slots where no budget holds what is forced. */
export const NO_BUDGET: number = Number.MAX_SAFE_INTEGER;

/** Returns the end of an error sentence about a budget smaller than the `count` slots that are forced. */
export const budgetHint = (count: number, forcers: readonly string[] = []): string =>
  count === NO_BUDGET
    ? `expected fewer forced slots, as no budget holds those of ${forcers.join(' and ') || 'the policy'}`
    : `expected a budget of at least ${count}${
        forcers.length > 0 ? `, as ${forcers.join(' and ')} force${forcers.length === 1 ? 's' : ''} them` : ''
      }`;
