import { intervalText, modeTitles } from '../columns.ts';
import type { Mode, NeedleSettings } from '../settings.ts';
import type { Accuracy, NeedleRow } from '../summary.ts';
import type { NeedleTable } from '../table.ts';
import { escapeHtml } from './escape.ts';

const CELL = { width: 46, height: 30, gap: 2 },
  LEFT = 50,
  BOTTOM = 34;

/** A small picture for every policy, mode by mode: depths across, budgets down. */
export function depthPanels({ settings, rows }: NeedleTable): string {
  return (
    settings.modes
      .map(
        (mode) => `<h3>${escapeHtml(modeTitles[mode])}</h3>
<div class="panels">${settings.policies
          .map((_, policy) =>
            panel(
              settings,
              mode,
              rows.filter(({ way }) => way.mode === mode && way.policy === policy),
            ),
          )
          .join('\n')}</div>`,
      )
      .join('\n') + key
  );
}

function panel({ depths }: NeedleSettings, mode: Mode, rows: readonly NeedleRow[]): string {
  const width = LEFT + depths.length * (CELL.width + CELL.gap),
    height = rows.length * (CELL.height + CELL.gap) + BOTTOM;
  const name = rows[0]?.policy ?? '';
  const cells = rows.map((row, r) => {
    const y = r * (CELL.height + CELL.gap);
    const label = `<text class="axis" x="${LEFT - 8}" y="${y + CELL.height / 2}" text-anchor="end" dominant-baseline="central">${row.way.budget ?? 'all'}</text>`;
    return label + row.byDepth.map((accuracy, d) => cell(accuracy, LEFT + d * (CELL.width + CELL.gap), y)).join('');
  });
  const ticks = depths
    .map(
      (depth, d) =>
        `<text class="axis" x="${LEFT + d * (CELL.width + CELL.gap) + CELL.width / 2}" y="${height - BOTTOM + 14}" text-anchor="middle">${depth}</text>`,
    )
    .join('');
  const title = `<text class="axis" x="${LEFT + (width - LEFT) / 2}" y="${height - 4}" text-anchor="middle">depth</text>`;
  const spoken = rows
    .map(
      (row) =>
        `${row.way.budget ?? 'all'}: ${row.byDepth.map(({ share }, d) => `${Math.round(100 * share)} % at depth ${depths[d]}`).join(', ')}`,
    )
    .join('; ');
  return `<figure data-mode="${mode}"><figcaption>${caption(name)}</figcaption><svg viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" role="img" aria-label="${escapeHtml(`${name}: ${spoken}`)}">${cells.join('')}${ticks}${title}</svg></figure>`;
}

/** The name large, its options small. */
function caption(policy: string): string {
  const [, name = policy, options = ''] = /^(\w+)\((.*)\)$/s.exec(policy) ?? [];
  return `<strong>${escapeHtml(name)}</strong>${options ? ` <small>${escapeHtml(options).replace(/,/g, ', ')}</small>` : ''}`;
}

function cell(accuracy: Accuracy, x: number, y: number): string {
  const { share, hits, n } = accuracy;
  return (
    `<g><title>${hits} of ${n} right, Wilson 95 %: ${intervalText(accuracy)}</title><rect class="empty" x="${x}" y="${y}" width="${CELL.width}" height="${CELL.height}" rx="3"/>` +
    `<rect class="full" fill-opacity="${share.toFixed(3)}" x="${x}" y="${y}" width="${CELL.width}" height="${CELL.height}" rx="3"/>` +
    `<text class="${share > 0.72 ? 'on' : 'off'}" x="${x + CELL.width / 2}" y="${y + CELL.height / 2}" text-anchor="middle" dominant-baseline="central">${Math.round(100 * share)}</text></g>`
  );
}

const key =
  '<p class="key"><span class="ramp" aria-hidden="true"></span> 0 to 100 % right; the number in a square is the percentage.</p>';
