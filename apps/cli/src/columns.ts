import { stripVTControlCharacters } from 'node:util';
import { plain } from './plain.ts';

/** A cell without what moves a cursor, but with the colours and weights that tables have. */
const uncontrolled = (cell: string): string =>
  cell
    .split(/(\x1b\[(?:[12]|22|3\d)m)/)
    .map((part, i) => (i % 2 === 1 ? part : plain(part)))
    .join('');

/** Width of a text on a terminal, colours not counted. */
const width = (text: string): number => [...stripVTControlCharacters(text)].length;

/** Rows as aligned columns with two spaces between them; the columns in `right` are flush right. */
export function columns(cells: readonly (readonly string[])[], right: ReadonlySet<number> = new Set()): string {
  const rows = cells.map((row) => row.map(uncontrolled));
  const widths = (rows[0] ?? []).map((_, c) => Math.max(...rows.map((row) => width(row[c] ?? ''))));
  return rows
    .map((row) =>
      widths
        .map((most, c) => {
          const text = row[c] ?? '',
            space = ' '.repeat(most - width(text));
          return right.has(c) ? space + text : text + space;
        })
        .join('  ')
        .trimEnd(),
    )
    .join('\n');
}

/** 12,345,678 bytes as 11.8 MiB. */
export function bytesText(bytes: number): string {
  const units = ['B', 'KiB', 'MiB', 'GiB'];
  const step = bytes < 1 ? 0 : Math.min(units.length - 1, Math.floor(Math.log2(bytes) / 10));
  const value = bytes / 1024 ** step;
  return `${step === 0 || value >= 100 ? Math.round(value) : value.toFixed(1)} ${units[step]}`;
}

/** 1234567 as 1.23 M. */
export function countText(count: number): string {
  const units = ['', ' k', ' M', ' G', ' T'];
  const step = count < 1000 ? 0 : Math.min(units.length - 1, Math.floor(Math.log10(count) / 3));
  return `${step === 0 ? Math.round(count) : Number((count / 1000 ** step).toPrecision(3))}${units[step]}`;
}
