import { modeTitles, needleColumns, needleLegend } from '../columns.ts';
import { needleConclusion } from '../conclusion.ts';
import type { NeedleTable } from '../table.ts';
import { escapeHtml } from './escape.ts';

/** Renders every row with all its numbers, one table per mode. */
export function resultTable({ settings, rows }: NeedleTable): string {
  const tables = settings.modes.map((mode) => {
    const title = escapeHtml(modeTitles[mode]),
      lines = rows
        .filter(({ arm }) => arm.mode === mode)
        .map((row) => {
          const [policy, ...cells] = needleColumns.map(([, cell]) => escapeHtml(cell(row)));
          return `<tr><th scope="row">${policy}</th>${cells.map((cell) => `<td>${cell}</td>`).join('')}</tr>`;
        });
    const concluded = needleConclusion(rows, mode),
      said = concluded === undefined ? '' : `\n<p>${escapeHtml(concluded)}</p>`;
    return `<h3>${title}</h3>${said}
<div class="scroll" role="region" aria-label="${title}" tabindex="0"><table>
<thead><tr>${needleColumns.map(([name]) => `<th scope="col">${name}</th>`).join('')}</tr></thead>
<tbody>
${lines.join('\n')}
</tbody></table></div>`;
  });
  return `${tables.join('\n')}<p class="key">${needleLegend.replaceAll('\n', '<br>')}</p>`;
}
