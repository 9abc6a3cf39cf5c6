import type { Tokens } from '@kv/core';
import { isSecretValue, looksNumbered, nameKind } from './name-kind.ts';
import type { NameKind } from './name-kind.ts';
import type { Detail, Extent } from './value-extent.ts';

/** A line longer than this is no row of a table. */
const LONGEST_LINE = 2000;
interface Cell {
  readonly text: string;
  readonly start: number;
}
type Cut = (line: string, at: number) => readonly Cell[];
/** A table that is open: how its rows are cut, and what its columns are. */
interface Table {
  readonly cut: Cut;
  readonly kinds: readonly (NameKind | undefined)[];
  readonly titles: readonly Extent[];
}
/** What was read of a text: whole lines up to `end`, and the table that is open there. */
interface State {
  readonly end: number;
  readonly table: Table | undefined;
  readonly found: Detail[];
}

const extentOf = ({ text, start }: Cell): Extent => [start, start + text.length];
const trimmed = (text: string, start: number): Cell => {
  const before = /^[\s"'`*]*/.exec(text)?.[0].length ?? 0;
  return { text: text.slice(before).replace(/[\s"'`*]+$/, ''), start: start + before };
};
const by =
  (delimiter: string): Cut =>
  (line, at) => {
    let start = at;
    return line.split(delimiter).map((part) => {
      const cell = trimmed(part, start);
      start += part.length + delimiter.length;
      return cell;
    });
  };
const aligned: Cut = (line, at) =>
  [...line.matchAll(/\S+(?: \S+)*/g)].map(({ 0: text, index }) => ({ text, start: at + index }));
/** Cuts of a header, with the least number of its cells. */
const CUTS: readonly (readonly [Cut, test: RegExp])[] = [
  [by('|'), /\|/],
  [by('\t'), /\t/],
  [by(';'), /^[^;]+;[^;]+/],
  [by(','), /^[^,]+,[^,\s]/],
  [aligned, /\S {2,}\S/],
];
const RULE = /^[\s|:+-]*-[\s|:+-]*$/;
const isTitle = ({ text }: Cell): boolean =>
  text === '' || (/^\p{L}[\p{L}\d _.#/()-]{0,30}$/u.test(text) && !/\d{3}/.test(text));

/** Returns the table whose header a line is. */
function tableOf(line: string, at: number): Table | undefined {
  const found = CUTS.find(([, test]) => test.test(line));
  if (!found) return undefined;
  const [cut] = found,
    cells = cut(line, at);
  if (cells.length < 2 || !cells.every(isTitle)) return undefined;
  return {
    cut,
    titles: cells.map(extentOf),
    kinds: cells.map(({ text }) =>
      /\b(?:an?|per|of|each|in|for|last|first)\b/i.test(text) ? undefined : nameKind(text),
    ),
  };
}
/** Returns what the cells of a row hold: by their columns, or by a first cell that is the name of the second. */
function read(table: Table, cells: readonly Cell[]): readonly Detail[] {
  const own = cells.filter(({ text }) => text !== ''),
    [first, second] = own,
    named = table.cut !== aligned && own.length === 2 ? nameKind(first?.text ?? '') : undefined;
  return cells.flatMap((cell, i) => {
    const kind = cell === second && named ? named : table.kinds[i];
    if (kind === undefined || cell.text === '' || /\s.*\s|, /.test(cell.text)) return [];
    const secret = kind === 'secret' || kind === 'key';
    const is = secret
      ? isSecretValue(cell.text, kind, false) && !/\s/.test(cell.text)
      : looksNumbered(cell.text, kind === 'id' ? 3 : 4);
    return is
      ? [
          {
            value: extentOf(cell),
            ...(kind === table.kinds[i] && { title: table.titles[i]! }),
            worth: secret ? 1 : 0.8,
          },
        ]
      : [];
  });
}

/** Reads one more line: returns the table that is open after it, and what its row holds. */
function step(table: Table | undefined, line: string, at: number): Pick<State, 'table' | 'found'> {
  if (line.length > LONGEST_LINE || line.trim() === '') return { table: undefined, found: [] };
  if (table && RULE.test(line)) return { table, found: [] };
  const cells = table?.cut(line, at) ?? [];
  if (table && cells.length > 1 && cells.length === table.kinds.length)
    return { table, found: [...read(table, cells)] };
  return { table: tableOf(line, at), found: [] };
}

const states = new WeakMap<Tokens, State>();
/**
 * Returns the values of tables: cells of Markdown, CSV, TSV and aligned columns below a title such as `order` or `API
 * key`, and of rows such as `| booking reference | X4 |`. Whole lines are read once.
 */
export function tableCells(tokens: Tokens): readonly Detail[] {
  const { text } = tokens,
    before = states.get(tokens);
  let { end, table, found }: State =
    before && before.end <= text.length ? before : { end: 0, table: undefined, found: [] };
  for (let stop = text.indexOf('\n', end); stop >= 0; stop = text.indexOf('\n', end)) {
    const line = step(table, text.slice(end, Math.min(stop, end + LONGEST_LINE + 1)), end);
    found.push(...line.found);
    [end, table] = [stop + 1, line.table];
  }
  states.set(tokens, { end, table, found });
  return [...found, ...step(table, text.slice(end, end + LONGEST_LINE + 1), end).found];
}
