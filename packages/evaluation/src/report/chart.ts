import { bytesText } from '@kv/core/shared';
import { escapeHtml } from '../needle/report/escape.ts';
import { groupBy } from '../grouped.ts';
import { nameText } from './compared.ts';
import type { SweepGroup } from './groups.ts';

const [WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM] = [640, 320, 60, 12, 10, 34];

/** Renders accuracy against mean bytes, a line per policy with the band of its intervals. */
export function chart(groups: readonly SweepGroup[], title: string): string {
  const most = Math.max(...groups.map(({ row }) => row.meanBytes)),
    read = groups.some(({ row }) => row.perplexity),
    top = read ? Math.max(...groups.map(({ interval }) => interval.high)) || 1 : 1,
    x = (bytes: number): string => (LEFT + ((WIDTH - LEFT - RIGHT) * bytes) / most).toFixed(1),
    y = (share: number): string => (TOP + (HEIGHT - TOP - BOTTOM) * (1 - share / top)).toFixed(1),
    policies = [...groupBy(groups, ({ row }) => nameText(row))];
  const lines = policies.map(([policy, of], i) => {
    const some = [...of].sort((a, b) => a.row.meanBytes - b.row.meanBytes),
      line = some.map(({ row }) => `${x(row.meanBytes)},${y(row.accuracy)}`).join(' '),
      band = [
        ...some.map(({ row, interval }) => `${x(row.meanBytes)},${y(interval.high)}`),
        ...some.toReversed().map(({ row, interval }) => `${x(row.meanBytes)},${y(interval.low)}`),
      ].join(' ');
    const bars = some.map(
      ({ row, interval }) =>
        `<line x1="${x(row.meanBytes)}" x2="${x(row.meanBytes)}" y1="${y(interval.low)}" y2="${y(interval.high)}"/>`,
    );
    const dots = some.map(({ row }) => `<circle class="dot" cx="${x(row.meanBytes)}" cy="${y(row.accuracy)}" r="3"/>`);
    return `<g class="s${i % 8}"><title>${escapeHtml(policy)}</title><polygon class="band" points="${band}"/><polyline class="line" points="${line}"/>${bars.join('')}${dots.join('')}</g>`;
  });
  const ticks = [0, 0.25, 0.5, 0.75, 1],
    up = ticks.map(
      (share) =>
        `<text x="${LEFT - 6}" y="${y(share * top)}" dy="4" text-anchor="end">${read ? (100 * share * top).toPrecision(2) : 100 * share} %</text>`,
    ),
    along = ticks.map(
      (share) =>
        `<text x="${x(share * most)}" y="${HEIGHT - 14}" text-anchor="${share === 1 ? 'end' : 'middle'}">${bytesText(share * most)}</text>`,
    );
  const keys = policies.map(
    ([policy], i) =>
      `<li><svg viewBox="0 0 32 16" class="s${i % 8}" aria-hidden="true"><line x1="2" y1="8" x2="30" y2="8" stroke-width="3"/></svg> ${escapeHtml(policy)}</li>`,
  );
  return `<figure><svg class="chart" viewBox="0 0 ${WIDTH} ${HEIGHT}" role="img" aria-label="${escapeHtml(title)}: ${read ? 'share of each token' : 'right answers'} against mean bytes">
<path class="axis" d="M${LEFT} ${TOP}V${HEIGHT - BOTTOM}H${WIDTH - RIGHT}"/>${up.join('')}${along.join('')}
${lines.join('\n')}</svg><ul class="legend">${keys.join('')}</ul></figure>`;
}
