import { BINS } from '../cells/evidence.ts';
import { mean } from '../numbers.ts';
import { escapeHtml } from '../needle/report/escape.ts';
import { panel, type PanelRow } from '../needle/report/panel.ts';
import { groupBy } from '../grouped.ts';
import { nameText } from './compared.ts';
import type { SweepGroup } from './groups.ts';

const DEPTHS = 5;
/** Returns a policy's name, form of cache and budget. */
export const wayText = ({ row }: SweepGroup): string =>
  row.budget === undefined ? nameText(row) : `${nameText(row)} at ${row.budget}`;

/**
 * Renders right answers by depth of the answer in the prompt and by budget, a panel per policy; empty if no answer
 * occurs in its prompt.
 */
export function depths(groups: readonly SweepGroup[]): string {
  const panels = [...groupBy(groups, ({ row }) => nameText(row))].map(([policy, of]) => {
    const lines = of.map(({ row, cells }): PanelRow => {
      const squares = Array.from({ length: DEPTHS }, (_, d) => {
        const some = cells.filter(
          ({ evidence: { depth } }) => depth !== undefined && Math.min(DEPTHS - 1, Math.floor(depth * DEPTHS)) === d,
        );
        if (some.length === 0) return '<td></td>';
        const share = mean(some.map(({ score }) => score)),
          percent = Math.round(100 * share);
        return `<td class="k${percent}${share > 0.72 ? ' on' : ''}" title="${some.length} answers">${percent}</td>`;
      });
      return [String(row.budget ?? 'all'), squares.join('')];
    });
    const ticks = Array.from({ length: DEPTHS }, (_, d) => (d / DEPTHS).toFixed(1));
    return `<figure><figcaption>${escapeHtml(policy)}</figcaption>${panel(lines, ticks)}</figure>`;
  });
  return groups.some(({ cells }) => cells.some(({ evidence: { depth } }) => depth !== undefined))
    ? `<div class="maps">${panels.join('\n')}</div><p class="key"><span class="ramp" aria-hidden="true"></span> 0 to 100 % right; depth is where the answer stands in the prompt.</p>`
    : '<p class="key">No answer stands word for word in its prompt, so there are no depths.</p>';
}

/** Renders what heads kept of the prompt: a row per layer and KV head from the first layer down, mean of all cells. */
export function keptMaps(groups: readonly SweepGroup[]): string {
  const figures = groups.flatMap((group) => {
    const maps = group.cells.flatMap(({ evidence: { map } }) =>
      map === undefined ? [] : [Buffer.from(map, 'base64')],
    );
    if (group.row.budget === undefined || maps.length === 0) return [];
    const rows = maps[0].length / BINS,
      whole = Array.from(maps[0], (_, i) => mean(maps.map((bytes) => bytes[i])) / 255),
      squares = whole.flatMap((share, i) =>
        share < 0.005
          ? []
          : [
              `<rect x="${i % BINS}" y="${Math.floor(i / BINS)}" width="1" height="1" fill-opacity="${share.toFixed(2)}"/>`,
            ],
      );
    const title = wayText(group);
    return [
      `<figure><figcaption>${escapeHtml(title)}</figcaption><svg class="map" viewBox="0 0 ${BINS} ${rows}" preserveAspectRatio="none" height="${Math.max(60, Math.min(260, 6 * rows))}" role="img" aria-label="${escapeHtml(`What ${title} kept, ${rows} heads by position`)}" shape-rendering="crispEdges">${squares.join('')}</svg></figure>`,
    ];
  });
  return figures.length === 0
    ? '<p class="key">Nothing was evicted.</p>'
    : `<div class="maps">${figures.join('\n')}</div><p class="key">From left to right the prompt, in ${BINS} parts; from top to bottom the KV heads of the first layer to the last. The stronger the colour, the more of the part stayed, mean over all answers.</p>`;
}
