import { bestSet, covered } from './facility-location.oracle.ts';
import type { Site } from './facility-location.oracle.ts';

/** The implementation under test: how well a set covers a row, and which sets are chosen. */
export interface Subject {
  value(site: Site, set: readonly number[]): number;
  choose(site: Site, budget: number): readonly number[];
}
/** Two sets, one inside the other, and a slot outside both. */
export interface Nest {
  readonly small: readonly number[];
  readonly large: readonly number[];
  readonly slot: number;
}
const SLACK = 1e-4; // f32, weights of at most 1

/** Laws of facility location: each returns whether it holds for one row. */
export const laws = {
  /** A slot more covers no less. */
  monotone: ({ value }: Subject, site: Site, { small, slot }: Nest): boolean =>
    value(site, [...small, slot]) >= value(site, small) - SLACK,
  /** A slot adds no more to a larger set than to a part of it. */
  'diminishing returns': ({ value }: Subject, site: Site, { small, large, slot }: Nest): boolean =>
    value(site, [...large, slot]) - value(site, large) <= value(site, [...small, slot]) - value(site, small) + SLACK,
  /** At least 1 - 1/e of the best set by brute force. */
  guarantee: ({ choose }: Subject, site: Site, { large }: Nest): boolean =>
    covered(site, choose(site, large.length)) >= (1 - 1 / Math.E) * covered(site, bestSet(site, large.length)) - SLACK,
  /** A larger budget keeps everything that a smaller one keeps. */
  nested: ({ choose }: Subject, site: Site, { small, large }: Nest): boolean => {
    const kept = choose(site, large.length);
    return choose(site, small.length).every((i) => kept.includes(i));
  },
};
export type Law = keyof typeof laws;
