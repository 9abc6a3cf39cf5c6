import type { DraftSelection } from '../piece/atoms.ts';

/** A piece that forces slots, with the numbers among its options: `snapkv(window=64,kernel=5)`. */
export function forcerOf(name: string, options: Readonly<Record<string, unknown>>): string {
  const set = Object.entries(options).flatMap(([key, x]) => (typeof x === 'number' ? [`${key}=${x}`] : []));
  return set.length === 0 ? name : `${name}(${set.join(',')})`;
}

/** The pieces that force slots of two drafts, each once; undefined if none does. */
export const forcersOf = (...drafts: readonly Pick<DraftSelection, 'forcedBy'>[]): readonly string[] | undefined => {
  const all = new Set(drafts.flatMap(({ forcedBy = [] }) => forcedBy));
  return all.size === 0 ? undefined : [...all];
};

/** The end of a sentence about a budget that is smaller than the `count` slots that are forced. */
export const budgetHint = (count: number, forcers: readonly string[] = []): string =>
  `expected a budget of at least ${count}${
    forcers.length > 0 ? `, as ${forcers.join(' and ')} force${forcers.length === 1 ? 's' : ''} them` : ''
  }`;
