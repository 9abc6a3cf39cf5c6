import { bytesText, counted, sumOf } from '@kv/core/shared';
import type { Report } from '@kv/models';
import { heldApart } from '../cache-text.ts';
import { levelsText } from './levels-text.ts';

/** What the line says about a run, of its report. */
export type KeptReport = Pick<Report, 'kept' | 'levels' | 'policy' | 'counts' | 'bytes' | 'cache' | 'held'> &
  Partial<Pick<Report, 'spans' | 'budget' | 'raised' | 'budgetBytes'>>;

/** What was read, and when its bytes are counted. */
interface Told {
  /** Tokens read before the first one was generated. */
  readonly read: number;
  readonly every?: number | undefined;
  /** The budget, where it is a share of these tokens. */
  readonly share?: string | undefined;
  /** @defaultValue 'the prompt' */
  readonly of?: string;
  /** @defaultValue 'in the end' */
  readonly when?: string;
}

/** Describes in one line what the last event of a run kept and dropped in all layers and KV heads, and its bytes. */
export function keptLine(
  { kept, levels, policy, counts: { events = 0, steps = 0 }, cache, budget, raised, budgetBytes = 0 }: KeptReport,
  { read, every = Number.POSITIVE_INFINITY, share, of = 'the prompt', when = 'in the end' }: Told,
): string {
  const rows = kept.flat(),
    lengths = rows.map((slots) => slots.length),
    mean = sumOf(lengths) / lengths.length,
    [least, most] = [Math.min(...lengths), Math.max(...lengths)],
    // an event during decoding has seen more than the prompt
    seen = Math.max(read + (Math.floor(steps / every) * every || 0), ...rows.map((slots) => (slots.at(-1) ?? -1) + 1)),
    slots = least === most ? String(most) : `${mean.toFixed(1)} (${least} to ${most})`,
    under =
      budget === undefined
        ? ''
        : `, budget ${share === undefined ? '' : `${share} of ${counted(read, 'token')} = `}${counted(budget, 'slot')}${raised === undefined ? '' : `, raised to the ${raised} that are forced`} = ${bytesText(budgetBytes)}`,
    held = [`${bytesText(cache.liveBytes)} ${when}`, ...heldApart(cache)].join(', and ');
  if (events === 0) return `kept all ${counted(read, 'token')} of ${of} (${policy || 'full'}), ${held}`;
  return `kept ${slots} of ${counted(seen, 'token')} a layer and KV head${levels ? `, ${levelsText(levels.flat(2))}` : ''}, dropped ${Number((seen - mean).toFixed(1))} (${policy}${under}), ${held}`;
}
