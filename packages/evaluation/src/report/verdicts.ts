import { bonferroni } from '@kv/tasks';
import { bytesText } from '@kv/core/shared';
import { escapeHtml } from '../needle/report/escape.ts';
import { screeningLegend, evidenceLevel } from '../evidence-level.ts';
import { contrastText } from '../sweep/contrasts.ts';
import type { SweepContrast } from '../sweep/contrasts.ts';
import type { SweepRow } from '../sweep/run.ts';
import { atText, comparedLegend, comparedText } from './compared.ts';
import { against, evictedNothing, wholeOf } from './groups.ts';
import type { SweepGroup } from './groups.ts';

const percent = (share: number): string => `${(100 * share).toFixed(1)}`;
const ppl = (x: number): string => x.toPrecision(4);
const pplText = ({ value, low, high }: Required<SweepRow>['perplexity']): string =>
  low === undefined || high === undefined ? ppl(value) : `${ppl(value)} [${ppl(low)}, ${ppl(high)}]`;
export const between = ({ low, high }: { readonly low: number; readonly high: number }): string =>
  `[${percent(low)}, ${percent(high)}]`;

/** Renders a sentence per declared contrast; empty without any. */
export const contrastSentences = (contrasts: readonly SweepContrast[]): string =>
  contrasts.length === 0
    ? ''
    : `<section><h2>Declared contrasts</h2>
<ol class="verdicts">${contrasts.map((contrast) => `<li>${escapeHtml(contrastText(contrast))}</li>`).join('\n')}</ol>
<p class="key">The sweep's file names these pairs. Bonferroni is over these ${contrasts.length} comparisons; the next section ends with what brackets and p are.</p></section>
`;

/** Renders a sentence per row, with intervals; p is two-sided, Bonferroni over all sentences that compare. */
export function verdicts(
  groups: readonly SweepGroup[],
  contrasts: readonly SweepContrast[],
  part?: Parameters<typeof evidenceLevel>[1],
): string {
  const found = groups.map((group) => {
      const whole = wholeOf(group, groups);
      if (!whole || whole === group) return { group };
      // with a budget that holds every prompt, the full cache would be compared with itself
      return evictedNothing(group, whole) ? { group, idle: true } : { group, difference: against(group, whole) };
    }),
    compared = found.flatMap(({ difference }) => (difference ? [difference.p] : [])),
    adjusted = bonferroni(compared);
  let next = 0;
  const items = found.map(({ group: { row, interval }, difference, idle = false }) => {
    const n = row.problems,
      kind = evidenceLevel(n, part),
      arm = `<strong>${escapeHtml(row.policy)}</strong>${escapeHtml(atText(row))}${row.budget === undefined || idle ? ', nothing evicted,' : ''}`,
      { perplexity } = row,
      right = perplexity
        ? `reads ${escapeHtml(row.task)} on ${escapeHtml(row.model)} at perplexity ${pplText(perplexity)} with ${bytesText(row.meanBytes)} on average`
        : `answers ${percent(row.accuracy)} % ${between(interval)} of ${escapeHtml(row.task)} on ${escapeHtml(row.model)} with ${bytesText(row.meanBytes)} on average`;
    if (!difference) return `<li>${arm} ${right} (${kind}, n = ${n}).</li>`;
    return `<li>${arm} ${right}: ${comparedText('the full cache', difference, adjusted[next++], { read: perplexity !== undefined })} (${kind}, n = ${n}).</li>`;
  });
  return `<ol class="verdicts">${items.join('\n')}</ol>
<p class="key">Brackets hold 95 % intervals in percent or points: Wilson's where all problems have as many answers and all answers of a problem are right or all are wrong, else 10,000 bootstrap draws of problems, or, where every problem says the same, what as many problems leave open (none of a text that is read); n counts problems, not answers, and differences are paired by problem. ${comparedLegend} Of a text that is read the perplexity is that of all its tokens, and a difference a factor of it: above 1 is worse. Comparisons with the full cache: ${compared.length}${contrasts.length > 0 ? ', counted apart from the declared contrasts' : ''}${groups.every((group) => wholeOf(group, groups)) ? '' : '; there is none where no policy of the sweep keeps and reads everything, as <code>full</code> does'}. ${screeningLegend}</p>`;
}
