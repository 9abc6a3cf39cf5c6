import { escapeHtml } from '../needle/report/escape.ts';
import type { OtherRow } from '../kvpress/read.ts';
import { evidenceLevel } from '../evidence-level.ts';
import { between } from './verdicts.ts';

/** Renders results of another library as a separate section, since their caches are not known. */
export function otherTable(rows: readonly OtherRow[]): string {
  if (rows.length === 0) return '';
  const head = ['policy', 'kept', 'model', 'task', 'right, %', '95 %', 'empty, %', 'n', 'evidence'],
    lines = rows.map(({ policy, budget = 'all', model, task, accuracy, interval, unparsed, samples }) => {
      const texts = [
        budget,
        model,
        task,
        (100 * accuracy).toFixed(1),
        interval ? between(interval) : '',
        (100 * unparsed).toFixed(1),
        String(samples),
        evidenceLevel(samples),
      ];
      return `<tr><th scope="row">${escapeHtml(policy)}</th>${texts.map((text, i) => `<td${i === 1 || i === 2 ? ' class="name"' : ''}>${escapeHtml(text)}</td>`).join('')}</tr>`;
    });
  return `<section><h2>Results of other libraries</h2>
<div class="scroll" role="region" aria-label="Results of other libraries" tabindex="0"><table><thead><tr>${head.map((title) => `<th scope="col">${title}</th>`).join('')}</tr></thead><tbody>${lines.join('\n')}</tbody></table></div>
<p class="key">Read from their result folders: what a budget came to in slots and bytes is not in them, so that equal shares need not be equal memory. Intervals as above, where single answers can be graded.</p></section>
`;
}
