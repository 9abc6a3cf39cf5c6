import { readFileSync } from 'node:fs';

/** Rows of the tables in docs/from-kvpress.md, cell by cell, under the first cell of their head. */
export function tables(): ReadonlyMap<string, readonly (readonly string[])[]> {
  const text = readFileSync(new URL('../../../docs/from-kvpress.md', import.meta.url), 'utf8'),
    found = new Map<string, string[][]>();
  for (const block of text.matchAll(/(?:^\|.*\n)+/gm)) {
    const [head = [], , ...rows] = block[0]
      .trim()
      .split('\n')
      .map((line) =>
        line
          .slice(1, -1)
          .split('|')
          .map((cell) => cell.trim()),
      );
    found.set(head[0], rows);
  }
  return found;
}
/** Returns the texts between backticks in a cell. */
export const codes = (cell: string): readonly string[] => Array.from(cell.matchAll(/`([^`]+)`/g), ([, code]) => code);
