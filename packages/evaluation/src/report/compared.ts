import type { PairedDifference } from '@kv/tasks';
import { pLegend } from '../p-legend.ts';
import type { SweepRow } from '../sweep/run.ts';

const LEVEL = 0.05;
/** Explains how p is computed and used. */
export const comparedLegend = `${pLegend} Better or worse is said where p after Bonferroni is below .05.`;
const points = (share: number): string => `${share > 0 ? '+' : ''}${(100 * share).toFixed(1)}`;
const factor = (nats: number): string => Math.exp(nats).toFixed(3);

/** Returns a row's policy, and the form of its cache if the sweep names forms. */
export const nameText = ({ policy, cache }: Pick<SweepRow, 'policy' | 'cache'>): string =>
  cache === undefined ? policy : `${policy} in ${cache}`;
/** Returns the budget in words, and the form of the cache; without a budget for a policy that evicts nothing. */
export function atText({ budget, slots, cache }: Pick<SweepRow, 'budget' | 'slots' | 'cache'>): string {
  const given =
      slots === undefined || slots === budget ? '' : ` (given ${slots}${typeof budget === 'string' ? ' slots' : ''})`,
    at = budget === undefined ? '' : ` at ${budget}${typeof budget === 'string' ? '' : ' slots'}${given}`;
  return cache === undefined ? at : ` in ${cache}${at}`;
}

/**
 * Describes a comparison with its interval and p. `read`: the difference is in nats, and less is better. `matched`:
 * false if mean caches were to match and do not, so that memory may explain the difference.
 */
export function comparedText(
  other: string,
  { difference, low, high, p }: PairedDifference,
  adjusted: number,
  { read, matched = true }: { readonly read: boolean; readonly matched?: boolean | undefined },
): string {
  const says = !matched
      ? `not matched with ${other}`
      : adjusted >= LEVEL
        ? `undecided against ${other}`
        : `${difference > 0 === !read ? 'better' : 'worse'} than ${other}`,
    by = read
      ? `times ${factor(difference)}${low < high ? ` [${factor(low)}, ${factor(high)}]` : ''}`
      : `${points(difference)} points [${points(low)}, ${points(high)}]`;
  return `${says}, ${by}, p = ${p.toFixed(4)}, ${adjusted.toFixed(4)} after Bonferroni`;
}
