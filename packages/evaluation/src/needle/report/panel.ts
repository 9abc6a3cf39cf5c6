import { escapeHtml } from './escape.ts';

/** A row of squares: its label, and the cells after it. */
export type PanelRow = readonly [label: string, cells: string];

/** Labels up to this many characters stand on one line in a narrow column. */
const SHORT = 7;
export const isWide = (label: string): boolean => label.length > SHORT;

/** Renders rows of squares with their labels on the left and `ticks` below. */
export function panel(rows: readonly PanelRow[], ticks: readonly (string | number)[]): string {
  const left = rows.some(([label]) => isWide(label)) ? 88 : 52,
    lines = rows.map(([label, cells]) => `<tr><th scope="row">${escapeHtml(label)}</th>${cells}</tr>`);
  return `<table class="panel" width="${48 * ticks.length + left}"><col width="${left}"><tbody>${lines.join('')}</tbody><tfoot><tr><th>depth</th>${ticks.map((tick) => `<th scope="col">${tick}</th>`).join('')}</tr></tfoot></table>`;
}
