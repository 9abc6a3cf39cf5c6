import { bytesText } from '@kv/core/shared';
import type { Report } from '@kv/models';
import { levelsText } from './levels-text.ts';

/**
 * Describes in one line what the last event of a run kept and dropped in all layers and KV heads; the prompt had `read`
 * tokens.
 */
export function keptLine(
  {
    kept,
    levels,
    policy,
    counts: { events = 0, steps = 0 },
    bytes: { live },
    budget,
    budgetBytes = 0,
  }: Pick<Report, 'kept' | 'levels' | 'policy' | 'counts' | 'bytes' | 'budget' | 'budgetBytes'>,
  read: number,
  every = Number.POSITIVE_INFINITY,
): string {
  const rows = kept.flat(),
    lengths = rows.map((slots) => slots.length),
    mean = lengths.reduce((sum, n) => sum + n, 0) / lengths.length,
    [least, most] = [Math.min(...lengths), Math.max(...lengths)],
    // an event during decoding has seen more than the prompt
    seen = Math.max(read + (Math.floor(steps / every) * every || 0), ...rows.map((slots) => (slots.at(-1) ?? -1) + 1)),
    slots = least === most ? String(most) : `${mean.toFixed(1)} (${least} to ${most})`,
    under = budget === undefined ? '' : `, budget ${budget} slots = ${bytesText(budgetBytes)}`;
  if (events === 0) return `kept all ${read} tokens of the prompt (${policy || 'full'}), ${bytesText(live)} in the end`;
  return `kept ${slots} of ${seen} tokens a layer and KV head${levels ? `, ${levelsText(levels.flat(2))}` : ''}, dropped ${Number((seen - mean).toFixed(1))} (${policy}${under}), ${bytesText(live)} in the end`;
}
