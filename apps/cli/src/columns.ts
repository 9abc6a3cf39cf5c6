import { stripVTControlCharacters } from 'node:util';
import { plain } from './plain.ts';

/** Removes control sequences from a cell, except colours and weights of tables. */
const uncontrolled = (cell: string): string =>
  cell
    .split(/(\x1b\[(?:[12]|22|3\d)m)/)
    .map((part, i) => (i % 2 === 1 ? part : plain(part)))
    .join('');

/** Returns the width of a text on a terminal, without colours. */
const width = (text: string): number => [...stripVTControlCharacters(text)].length;

/** Aligns rows as columns with a gap of spaces; the columns in `right` are flush right. */
export function columns(
  cells: readonly (readonly string[])[],
  right: ReadonlySet<number> = new Set(),
  gap = '  ',
): string {
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
        .join(gap)
        .trimEnd(),
    )
    .join('\n');
}

const widest = (text: string): number => Math.max(...text.split('\n').map(width));
/** Splits a row into lines, one cell after the other, with the other cells of the line empty. */
const stacked = (cells: readonly (readonly string[])[]): readonly (readonly string[])[] =>
  Array.from({ length: Math.max(...cells.map(({ length }) => length)) }, (_, line) =>
    cells.map((lines) => lines[line] ?? ''),
  );

/** Width below which a text column is not narrowed. */
const NARROW = 12;
/** Where lines may break: after spaces. */
const SPACES = /(?<= )/;
/** Also after the separators of lists, compositions and options. */
const SIGNS = /(?<= |[,|∘]|[^ ]\()(?! )/;

/**
 * Aligns rows within `most` characters: breaks titles at words, then wraps text columns, the widest first, then narrows
 * the gap, then cuts words; if that is still too wide, prints each row as lines of a title and a cell.
 */
export function fitColumns(rows: readonly (readonly string[])[], right: ReadonlySet<number>, most: number): string {
  const whole = columns(rows, right),
    [head = [], ...body] = rows.map((row) => row.map(uncontrolled));
  if (widest(whole) <= most) return whole;
  const titles = head.map((title) => Math.max(...stripVTControlCharacters(title).split(' ').map(width))),
    natural = titles.map((title, c) => Math.max(title, ...body.map((row) => width(row[c] ?? '')))),
    cut = natural.map((all, c) => (right.has(c) ? all : Math.max(titles[c], Math.min(all, NARROW)))),
    uncut = cut.map((least, c) => Math.max(least, ...body.map((row) => longest(row[c] ?? ''))));
  for (const [gap, least] of [
    ['  ', uncut],
    [' ', uncut],
    [' ', cut],
  ] as const) {
    const widths = narrowed(natural, least, most - gap.length * (head.length - 1));
    if (!widths) continue;
    const lines = [
      ...stacked(head.map((title, c) => cellLines(title, titles[c]))),
      ...body.flatMap((row) => stacked(row.map((cell, c) => cellLines(cell, widths[c])))),
    ];
    return columns(lines, right, gap);
  }
  return body
    .map(([name = '', ...cells]) =>
      [
        ...cellLines(name, most),
        ...cells.flatMap((cell, c) =>
          (cell === '' ? [] : cellLines(`${head[c + 1]}: ${cell}`, most - 2)).map((line) => `  ${line}`),
        ),
      ].join('\n'),
    )
    .join('\n');
}
/** Returns widths that add up to `room`, narrowing the widest columns; undefined if there is too little. */
function narrowed(natural: readonly number[], least: readonly number[], room: number): readonly number[] | undefined {
  const widths = [...natural];
  for (let over = natural.reduce((a, b) => a + b, 0) - room; over > 0; over--) {
    const spare = widths.map((most, c) => (most > least[c] ? most : 0)),
      widestOf = spare.indexOf(Math.max(...spare));
    if (spare[widestOf] === 0) return undefined;
    widths[widestOf]--;
  }
  return widths;
}
/** Returns the width of the longest unbreakable part of a cell. */
const longest = (cell: string): number =>
  Math.max(
    ...stripVTControlCharacters(cell)
      .split(SIGNS)
      .map((part) => width(part.trimEnd())),
  );

/** Wraps a cell to the width of a column, repeating its colour in every line. */
function cellLines(cell: string, most: number): readonly string[] {
  if (width(cell) <= most) return [cell];
  const [, tint = '', end = ''] = /^(\x1b\[\d+m).*(\x1b\[\d+m)$/.exec(cell) ?? [],
    lines = wrap(stripVTControlCharacters(cell), most, SIGNS);
  return lines.map((line) => `${tint}${line}${end}`);
}

/** Wraps words to lines of at most `most` characters; a longer word is cut. `breaks`: where lines may break. */
export function wrap(text: string, most: number, breaks: RegExp = SPACES): readonly string[] {
  const lines: string[] = [''];
  for (const word of text.split(breaks).flatMap((long) => pieces([...long], most))) {
    const longer = lines[lines.length - 1] + word;
    if (width(longer.trimEnd()) <= most) lines[lines.length - 1] = longer;
    else lines.push(word);
  }
  return lines.map((line) => line.trimEnd());
}
const pieces = (letters: readonly string[], most: number): readonly string[] =>
  letters.length <= most ? [letters.join('')] : [letters.slice(0, most).join(''), ...pieces(letters.slice(most), most)];

/** Wraps long lines of a text at `most` characters, keeping their indentation. */
export const reflow = (text: string, most: number): string =>
  text
    .split('\n')
    .map((line) => {
      const indent = /^ */.exec(line)?.[0] ?? '';
      return width(line) <= most
        ? line
        : wrap(line.trimStart(), most - indent.length)
            .map((part) => indent + part)
            .join('\n');
    })
    .join('\n');

/**
 * Aligns rows as columns, the last one wrapped so that lines have at most `most` characters; below the others if little
 * room is left.
 */
export function wrapColumns(rows: readonly (readonly string[])[], most: number): string {
  const heads = columns(rows.map((row) => row.slice(0, -1))).split('\n');
  const indent = Math.max(...heads.map(width)) + 2;
  const sideBySide = most - indent >= 30;
  return rows
    .map((row, r) => {
      const space = ' '.repeat(sideBySide ? indent : 4);
      const lines = wrap(row.at(-1) ?? '', Math.max(20, most - space.length)).map((line) =>
        `${space}${line}`.trimEnd(),
      );
      return sideBySide
        ? [heads[r] + ' '.repeat(indent - width(heads[r])) + lines[0].trimStart(), ...lines.slice(1)]
            .join('\n')
            .trimEnd()
        : [heads[r], ...lines].join('\n');
    })
    .join('\n');
}

/** Formats a count: 1234567 as 1.23 M. */
export function countText(count: number): string {
  const units = ['', ' k', ' M', ' G', ' T'];
  const step = count < 1000 ? 0 : Math.min(units.length - 1, Math.floor(Math.log10(count) / 3));
  return `${step === 0 ? Math.round(count) : Number((count / 1000 ** step).toPrecision(3))}${units[step]}`;
}
