import type { PairedDifference } from '@kv/tasks';
import { pLegend } from '../p-legend.ts';
import type { SweepRow } from '../sweep/run.ts';

const LEVEL = 0.05;
/** Explains how p is computed and used. */
export const comparedLegend = `${pLegend} Better or worse is said where p after Bonferroni is below .05.`;
const points = (share: number): string => `${share > 0 ? '+' : ''}${(100 * share).toFixed(1)}`;
const factor = (nats: number): string => Math.exp(nats).toFixed(3);

/** Returns the budget in words; empty for a policy that evicts nothing. */
export const atText = ({ budget, slots }: Pick<SweepRow, 'budget' | 'slots'>): string =>
  budget === undefined
    ? ''
    : ` at ${budget}${typeof budget === 'string' ? '' : ' slots'}${slots === undefined || slots === budget ? '' : ` (given ${slots})`}`;

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
      ? `times ${factor(difference)} [${factor(low)}, ${factor(high)}]`
      : `${points(difference)} points [${points(low)}, ${points(high)}]`;
  return `${says}, ${by}, p = ${p.toFixed(4)}, ${adjusted.toFixed(4)} after Bonferroni`;
}
