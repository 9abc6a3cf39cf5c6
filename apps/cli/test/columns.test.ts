import fc from 'fast-check';
import { expect, it } from 'vitest';
import { fitColumns } from '../src/columns.ts';
import { lineWidth, sizedStream } from '../src/terminal.ts';
import { kv } from './terminal.ts';

const text = fc
    .array(fc.stringMatching(/^[a-z∘|,(]{1,18}$/), { minLength: 1, maxLength: 8 })
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
      const lines = fitColumns([head, ...body], new Set([2, 3]), most);
      expect(widest(lines)).toBeLessThanOrEqual(most);
      const told = /^ {2}\S.*: /m.test(lines)
        ? [...body.flat(), ...body.flatMap(() => head.slice(1))]
        : [...head, ...body.flat()];
      expect(letters(lines)).toBe(letters(told.join('')));
    }),
  );
});

it('a table of 80 characters breaks policies after their signs, and cuts a word only where it has no room', () => {
  const head = ['policy', 'budget', 'right', 'Wilson 95 %', 'value kept', 'somewhere', 'cache, mean', 'tokens/s'],
    policyIn = (policy: string, most: number): readonly string[] =>
      fitColumns(
        [head, [policy, '25%', '100 %', '72-100 %', '50 %', '100 %', '1.2 MiB', '1.02x']],
        new Set([2, 3, 4, 5, 6, 7]),
        most,
      )
        .split('\n')
        .slice(2)
        .map((line) => line.split(/ +25%/)[0]);
  expect(policyIn('snapkv(window=16,kernel=5,of=mean)', 80)).toEqual(['snapkv(window=16,', 'kernel=5,of=mean)']);
  expect(policyIn('weighted(0.5*recency,1*snapkv(window=16))∘topK', 80)).toEqual([
    'weighted(',
    '0.5*recency,',
    '1*snapkv(',
    'window=16))∘topK',
  ]);
  expect(policyIn('a-name-without-any-sign(b=1)', 80)).toEqual(['a-name-without-any-sign(', 'b=1)']);
  expect(policyIn('a-name-without-any-sign(b=1)', 74)).toEqual(['a-name-without-any-', 'sign(b=1)']);
});

const widest = (printed: string): number => Math.max(...printed.split('\n').map((line) => [...line].length));

it.each([
  [{ COLUMNS: '50' }, 120, 50],
  [{ COLUMNS: '50' }, undefined, 50],
  [{}, 120, 120],
  [{}, undefined, 80],
  [{ COLUMNS: 'wide' }, undefined, 80],
  [{ COLUMNS: '0' }, 0, 80],
  [{ COLUMNS: '3' }, 120, 20],
])('with %j and a terminal of %s characters, a line has %i', (env, columns, most) => {
  expect(lineWidth(sizedStream({ columns } as NodeJS.WriteStream, env))).toBe(most);
});

it.each([undefined, 60, 132])('help and pieces fit lines of %s characters, piped or not', async (columns) => {
  const told = async (...args: string[]): Promise<string> => (await kv(args, { columns })).stdout,
    most = columns ?? 80,
    names = [...(await told('--help')).matchAll(/^ {2}([a-z]+) \[options\]/gm)].map(([, name = '']) => name);
  expect(names.length).toBeGreaterThan(9);
  for (const args of [[], ['--help'], ...names.map((name) => [name, '--help']), ['pieces', 'sponsorship']])
    expect(widest(await told(...args)), args.join(' ')).toBeLessThanOrEqual(most);
});

it('an example that is folded to the width is the same command still', async () => {
  const [wide, narrow] = await Promise.all(
    [200, 60].map(async (columns) => (await kv(['trace', '--help'], { columns })).stdout.split('Examples:\n')[1]),
  );
  expect(narrow).toContain(' \\\n      --policy ');
  expect(narrow?.replace(/ \\\n */g, ' ')).toBe(wide);
});

it.each([undefined, 120])("'kv explain all' is a table in %s characters, piped or not", async (most) => {
  const { code, stdout } = await kv(['explain', 'all', '--shape', 'llama-3.2-1b', '--length', '512'], {
    columns: most,
  });
  expect(code).toBe(0);
  expect(widest(stdout)).toBeLessThanOrEqual(most ?? 80);
  expect(stdout).toMatch(/^snapkv +window +\d+ +\d+ +\d/m);
  expect(stdout.split('\n').length).toBeLessThan(120);
});
