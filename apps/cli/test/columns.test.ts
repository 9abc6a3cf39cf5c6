import fc from 'fast-check';
import { expect, it } from 'vitest';
import { columns, fitted, tableOn } from '../src/columns.ts';
import { kv } from './terminal.ts';

const text = fc
    .array(fc.stringMatching(/^[a-z∘|,]{1,18}$/), { minLength: 1, maxLength: 8 })
    .map((words) => words.join(' ')),
  number = fc.integer({ min: 0, max: 99_999 }).map(String),
  rowOf = (...cells: fc.Arbitrary<string>[]): fc.Arbitrary<string[]> => fc.tuple(...cells);
const table = fc.tuple(
  rowOf(text, text, text, text),
  fc.array(rowOf(text, text, number, number), { minLength: 1, maxLength: 5 }),
);
const letters = (some: string): string => [...some.replace(/[\s:]/g, '')].sort().join('');

it('a table fits any terminal of 24 characters and more, and loses no letter', () => {
  fc.assert(
    fc.property(table, fc.integer({ min: 24, max: 200 }), ([head, body], most) => {
      const lines = fitted([head, ...body], new Set([2, 3]), most);
      expect(Math.max(...lines.split('\n').map((line) => [...line].length))).toBeLessThanOrEqual(most);
      const told = /^ {2}\S.*: /m.test(lines)
        ? [...body.flat(), ...body.flatMap(() => head.slice(1))]
        : [...head, ...body.flat()];
      expect(letters(lines)).toBe(letters(told.join('')));
    }),
  );
});

it('a table is whole where it does not go to a terminal', () => {
  const rows = [
      ['row', 'promise'],
      ['a', 'long '.repeat(60)],
    ],
    write = (): void => {};
  expect(tableOn({ write, columns: 40 }, rows)).toBe(columns(rows));
  expect(tableOn({ write, isTTY: true, columns: 40 }, rows)).toBe(fitted(rows, new Set(), 40));
});

it.each([80, 120])("'kv explain all' fits a terminal of %i characters", async (most) => {
  const { code, stdout } = await kv(['explain', 'all', '--shape', 'llama-3.2-1b', '--length', '512'], {
    columns: most,
  });
  expect(code).toBe(0);
  expect(Math.max(...stdout.split('\n').map((line) => [...line].length))).toBeLessThanOrEqual(most);
  expect(stdout).toMatch(
    most < 100 ? /^snapkv\n {2}looks at: window\n {2}dispatches a layer: \d+\n/m : /^snapkv +window +\d+ /m,
  );
});
