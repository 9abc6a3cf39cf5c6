import { bytesText } from '../columns.ts';
import { escapeHtml } from './report-escape.ts';
import type { Row } from './summary.ts';
import { budgetText, intervalText, MODE_TITLES, percent } from './table.ts';

const HEAD = [
  'Policy',
  'Budget',
  'Right',
  'Wilson 95 %',
  'Value kept',
  'Somewhere',
  'Cache, mean',
  'Cache, peak',
  'Tokens/s',
];

/** Every row with all its numbers, one table a mode. */
export function resultTable(rows: readonly Row[]): string {
  const modes = [...new Set(rows.map(({ way }) => way.mode))];
  return (
    modes
      .map(
        (mode) => `<h3>${escapeHtml(MODE_TITLES[mode])}</h3>
<div class="scroll" role="region" aria-label="${escapeHtml(MODE_TITLES[mode])}" tabindex="0"><table>
<thead><tr>${HEAD.map((name) => `<th scope="col">${name}</th>`).join('')}</tr></thead>
<tbody>
${rows
  .filter(({ way }) => way.mode === mode)
  .map(line)
  .join('\n')}
</tbody></table></div>`,
      )
      .join('\n') + NOTE
  );
}

function line(row: Row): string {
  const { policy, accuracy, retained, somewhere, memory, speed } = row;
  const cells = [
    budgetText(row),
    percent(accuracy.share),
    intervalText(accuracy),
    percent(retained),
    percent(somewhere),
    memory ? bytesText(memory.mean) : '–',
    memory ? bytesText(memory.peak) : '–',
    speed === undefined ? '–' : `${speed.toFixed(2)}×`,
  ];
  return `<tr><th scope="row">${escapeHtml(policy)}</th>${cells.map((cell) => `<td>${escapeHtml(cell)}</td>`).join('')}</tr>`;
}

const NOTE = `<p class="key">Value kept: layers and KV heads that still hold every token of the value, mean over prompts. Somewhere: prompts where at least one does.
Cache: bytes of keys, values, positions and what the policy remembers, of one run by itself: mean while answering, and peak. Tokens/s: against the full cache on the same prompts.</p>`;
