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

/** Rows as aligned columns with a gap of spaces between them; the columns in `right` are flush right. */
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
/** A row as lines: each cell of it as its own lines, beside empty cells. */
const stacked = (cells: readonly (readonly string[])[]): readonly (readonly string[])[] =>
  Array.from({ length: Math.max(...cells.map(({ length }) => length)) }, (_, line) =>
    cells.map((lines) => lines[line] ?? ''),
  );

/** Characters of a text column below which it is not narrowed. */
const NARROW = 12;
/** Where text may go on in the next line. */
const SPACES = /(?<= )/;
/** And lists, compositions and options in text, behind their signs. */
const SIGNS = /(?<= |[,|∘]|[^ ]\()(?! )/;

/**
 * The same within `most` characters: titles stand with a word a line, then text columns in lines of their own, the widest
 * first, then columns closer together, then words are cut; where that is still too wide, each row as lines of a title
 * and a cell.
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
/** Widths that add up to `room`, taken from the widest columns; nothing where there is too little. */
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
/** Characters of the longest part of a cell that is not cut where there is room. */
const longest = (cell: string): number =>
  Math.max(
    ...stripVTControlCharacters(cell)
      .split(SIGNS)
      .map((part) => width(part.trimEnd())),
  );

/** A cell in lines of a column, each in its colour. */
function cellLines(cell: string, most: number): readonly string[] {
  if (width(cell) <= most) return [cell];
  const [, tint = '', end = ''] = /^(\x1b\[\d+m).*(\x1b\[\d+m)$/.exec(cell) ?? [],
    lines = wrap(stripVTControlCharacters(cell), most, SIGNS);
  return lines.map((line) => `${tint}${line}${end}`);
}

/** Words in lines of at most `most` characters; a longer word is cut. `breaks`: where words end. */
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

/** Text whose longer lines go on in lines of at most `most` characters, as far in as they began. */
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

/** Rows as columns, the last one wrapped so that lines have at most `most` characters; below the others where little is left. */
export function wrapColumns(rows: readonly (readonly string[])[], most: number): string {
  const heads = columns(rows.map((row) => row.slice(0, -1))).split('\n');
  const indent = Math.max(...heads.map(width)) + 2;
  const beside = most - indent >= 30;
  return rows
    .map((row, r) => {
      const space = ' '.repeat(beside ? indent : 4);
      const lines = wrap(row.at(-1) ?? '', Math.max(20, most - space.length)).map((line) =>
        `${space}${line}`.trimEnd(),
      );
      return beside
        ? [heads[r] + ' '.repeat(indent - width(heads[r])) + lines[0].trimStart(), ...lines.slice(1)]
            .join('\n')
            .trimEnd()
        : [heads[r], ...lines].join('\n');
    })
    .join('\n');
}

/** 1234567 as 1.23 M. */
export function countText(count: number): string {
  const units = ['', ' k', ' M', ' G', ' T'];
  const step = count < 1000 ? 0 : Math.min(units.length - 1, Math.floor(Math.log10(count) / 3));
  return `${step === 0 ? Math.round(count) : Number((count / 1000 ** step).toPrecision(3))}${units[step]}`;
}
