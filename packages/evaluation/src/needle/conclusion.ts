import { percent } from '../numbers.ts';
import { evidenceLevel } from '../evidence-level.ts';
import { bytesText } from '@kv/core/shared';
import { intervalText } from './columns.ts';
import type { Mode } from './settings.ts';
import type { NeedleRow } from './summary.ts';

/**
 * Summarizes a mode's rows in a sentence: the policy with the least mean memory whose interval does not rule out the
 * full cache's share of right answers, else the one with most right answers. Undefined if the full cache answers
 * nothing right, or there is no other row.
 */
export function needleConclusion(rows: readonly NeedleRow[], mode: Mode): string | undefined {
  const ran = rows.filter(({ arm, memory }) => arm.mode === mode && memory),
    full = ran.find(({ arm }) => arm.budget === undefined),
    others = ran.filter((row) => row !== full);
  if (!full || full.accuracy.hits === 0 || others.length === 0) return undefined;
  const able = others.filter(({ accuracy }) => accuracy.interval.high >= full.accuracy.share),
    lighter = (a: NeedleRow, b: NeedleRow): NeedleRow => (bytes(b) < bytes(a) ? b : a),
    better = (a: NeedleRow, b: NeedleRow): NeedleRow => (b.accuracy.share > a.accuracy.share ? b : a),
    best = able.length > 0 ? able.reduce(lighter) : others.reduce(better),
    { policy, arm, accuracy } = best,
    said = `${policy} with ${arm.budget ?? 'everything'} kept${arm.cache === full.arm.cache ? '' : ` in ${arm.cache}`}, ${percent(accuracy.share)} right (${intervalText(accuracy)}), ${bytesText(bytes(best))} of ${bytesText(bytes(full))} on average.`,
    number = `A ${evidenceLevel(accuracy.n)} of ${accuracy.n} prompts.`;
  if (able.length > 0)
    return `Least memory not shown to be worse than the full cache's ${percent(full.accuracy.share)}: ${said} ${number}`;
  if (accuracy.hits === 0) return `Nothing here answers but the full cache. ${number}`;
  return `Nothing here answers as the full cache does; nearest: ${said} ${number}`;
}
const bytes = ({ memory }: NeedleRow): number => memory?.mean ?? Infinity;
