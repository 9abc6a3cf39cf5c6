import fc from 'fast-check';
import { expect, it } from 'vitest';
import { fittedLine } from '../src/help.ts';
import { kv } from './terminal.ts';

const WIDE = 5000;
const help = async (path: readonly string[], columns?: number): Promise<string> =>
  (await kv([...path, '--help'], { columns })).stdout;
/** Every command and every command of a group, as the lists of help name them. */
async function paths(path: readonly string[] = []): Promise<readonly (readonly string[])[]> {
  const [, listed = ''] = /\nCommands:\n([^]*?)\n\n/.exec(await help(path, WIDE)) ?? [],
    names = [...listed.matchAll(/^ {2}(\w+)/gm)].map(([, name = '']) => name).filter((name) => name !== 'help');
  return [path, ...(await Promise.all(names.map((name) => paths([...path, name])))).flat()];
}
const all = paths();
/** Words in their order; a shell line continues after `\`. */
const words = (text: string): readonly string[] => text.split(/\s+/).filter((word) => word !== '' && word !== '\\');

const term = fc.stringMatching(/^[a-z][a-z-]{0,11}$/),
  sentence = fc
    .array(fc.stringMatching(/^[a-z,"{}]{1,14}$/), { minLength: 1, maxLength: 30 })
    .map((all) => all.join(' ')),
  line = fc.oneof(
    fc.tuple(term, fc.nat(6), fc.integer({ min: 2, max: 5 }), sentence).map(([name, indent, gap, text]) => ({
      lead: `${' '.repeat(indent)}${name}${' '.repeat(gap)}`,
      text,
    })),
    fc.tuple(fc.nat(15), sentence).map(([indent, text]) => ({ lead: `${' '.repeat(indent)}- `, text })),
    fc.tuple(fc.nat(8), sentence).map(([indent, text]) => ({ lead: ' '.repeat(indent), text })),
  );

it('a line that is too long goes on in the column of its text, and only where the next word has no room', () => {
  fc.assert(
    fc.property(line, fc.integer({ min: 40, max: 120 }), ({ lead, text }, most) => {
      const lines = fittedLine(lead + text, most).split('\n');
      expect(words(lines.join(' '))).toEqual(words(lead + text));
      for (const [i, each] of lines.entries()) {
        expect(each.length).toBeLessThanOrEqual(most);
        const before = lines[i - 1];
        if (i === 0 || before === undefined) continue;
        const column = /^ */.exec(each)?.[0].length ?? 0,
          [next = ''] = each.trim().split(' ');
        expect(column).toBe(
          most - lead.length >= 24 || !/\S {2,}$/.test(lead) ? lead.length : /^ */.exec(lead)![0].length + 4,
        );
        if (before.trim() !== lead.trim()) expect(before.length + 1 + next.length).toBeGreaterThan(most);
      }
    }),
  );
});

it('help of every command fits any width, and loses no word', async () => {
  const wide = new Map(await Promise.all((await all).map(async (path) => [path, await help(path, WIDE)] as const)));
  expect(wide.size).toBeGreaterThan(19);
  await fc.assert(
    fc.asyncProperty(
      fc.constantFrom(...wide.keys()),
      fc.oneof(fc.constant(undefined), fc.integer({ min: 20, max: 160 })),
      async (path, columns) => {
        const text = await help(path, columns);
        const narrow = (columns ?? 80) < 60;
        // quoted words of a shell are not cut
        const shown = narrow ? text.replace(/^ {2}\$ (?:.* \\\n)*.*$/gm, '') : text;
        for (const each of shown.split('\n')) expect(each.length, each).toBeLessThanOrEqual(columns ?? 80);
        if ((columns ?? 80) < 72) return; // names of policies with their options may be cut
        expect(words(text)).toEqual(words(wide.get(path) ?? ''));
        for (const [whole, lead = ''] of wide.get(path)!.matchAll(/^( *\S+(?: \S+)* {2,})\S.*$/gm))
          if (whole.length > (columns ?? 80) && text.includes(`\n${lead}`))
            expect(text.split(`\n${lead}`)[1]!.split('\n')[1]).toMatch(new RegExp(`^ {${lead.length}}\\S`));
      },
    ),
    { numRuns: 300 },
  );
});

it('kv alone names the five commands of a beginner, which there are', async () => {
  const { code, stdout } = await kv([]),
    named = [...stdout.matchAll(/^ {2}kv (\w+)/gm)].map(([, name = '']) => name);
  expect([code, named.length]).toEqual([0, 5]);
  for (const name of named) expect((await kv(['help', name])).code, name).toBe(0);
});

it('kv help runs no command, whatever stands after its name', async () => {
  for (const path of await all)
    if (path.length > 0 && !/\nCommands:\n/.test(await help(path, 90)))
      expect(await kv(['help', ...path, 'more', 'words'], { columns: 90 }), path.join(' ')).toEqual({
        code: 0,
        stdout: await help(path, 90),
        stderr: '',
      });
});

it('a group of commands without one of them prints its help, and so does kv help', async () => {
  for (const path of await all) {
    const asked = await kv(['help', ...path], { columns: 90 });
    expect(asked, path.join(' ')).toEqual({ code: 0, stdout: await help(path, 90), stderr: '' });
    if (path.length > 0 && /\nCommands:\n/.test(asked.stdout)) expect(await kv(path, { columns: 90 })).toEqual(asked);
  }
});

it.each([
  [['help', 'nope'], "kv: unknown command 'nope'; the commands are needle, choose, run, chat, "],
  [['protocol', 'nope'], "kv: unknown command 'nope'; the commands are split, probe, confirm, branch\n"],
  [['protocol', 'help', 'nope'], "kv: unknown command 'nope'; the commands are split, probe, confirm, branch\n"],
])('%j names the commands that there are', async (args, sentence) => {
  const { code, stdout, stderr } = await kv(args);
  expect([code, stdout, stderr.startsWith(sentence)], stderr).toEqual([2, '', true]);
});

it('options that must be given are marked', async () => {
  for (const path of await all) {
    const { stderr } = await kv([...path, ...(path.length > 0 ? ['x'] : [])]),
      [, missing] = /required option '(--\w+)/.exec(stderr) ?? [];
    if (missing !== undefined)
      expect((await help(path, WIDE)).match(new RegExp(`${missing} .*`))?.[0], path.join(' ')).toContain('(required)');
  }
});
