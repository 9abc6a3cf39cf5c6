import { cpSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { spawnSync } from 'node:child_process';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { makeFolder } from '@kv/create-piece/template';
import { expect, test } from 'vitest';

const own = join(import.meta.dirname, '..'),
  folder = mkdtempSync(join(tmpdir(), 'kv-create-app-')),
  published = join(folder, 'published'),
  work = join(folder, 'work');

/** The package as pnpm publishes it, with versions in place of what only the workspace knows. */
function publish(): void {
  for (const part of ['package.json', 'src', 'templates'])
    cpSync(join(own, part), join(published, part), { recursive: true });
  const text = readFileSync(join(own, 'package.json'), 'utf8');
  writeFileSync(join(published, 'package.json'), text.replace(/"(?:workspace|catalog):[^"]*"/g, '"1.2.3"'));
  mkdirSync(join(published, 'node_modules/@kv'), { recursive: true });
  symlinkSync(join(own, '../create-piece'), join(published, 'node_modules/@kv/create-piece'));
  mkdirSync(work);
}
publish();
const run = (...args: string[]) =>
  spawnSync(process.execPath, [join(published, 'src/bin.mjs'), ...args], { cwd: work, encoding: 'utf8' });

test('a name makes a folder with every word filled in, which is made once', () => {
  expect(run('@me/my-chat')).toMatchObject({
    status: 0,
    stdout: expect.stringMatching(/^my-chat is ready:/) as string,
  });
  const made = join(work, 'my-chat'),
    files = readdirSync(made);
  expect(files.sort()).toEqual([
    ...['.gitignore', 'README.md', 'index.html', 'main.js', 'package.json', 'settings.js'],
    ...['style.css', 'vite.config.js', 'worker.js'],
  ]);
  for (const file of files) expect(readFileSync(join(made, file), 'utf8'), file).not.toMatch(/__[a-z]+(:[^_]+)?__/);
  expect(JSON.parse(readFileSync(join(made, 'package.json'), 'utf8'))).toMatchObject({
    name: '@me/my-chat',
    dependencies: { '@kv/hub': '^1.2.3', '@kv/models': '^1.2.3' },
    devDependencies: { vite: '^1.2.3' },
  });
  writeFileSync(join(made, 'settings.js'), 'mine');
  expect(run('my-chat')).toMatchObject({ status: 2, stderr: 'create-app: my-chat must be free, but it exists\n' });
  expect(readFileSync(join(made, 'settings.js'), 'utf8')).toBe('mine');
});

test.each([
  [[], /^create-app: expected one NAME, got 0; --help says more\n$/],
  [['../x'], /^create-app: the name must be lower-case words joined by '-', .*, got "..\/x"\n$/],
  [['x', '--dir', 'y'], /^create-app: Unknown option '--dir'.*\n$/],
] as const)('%j is refused in one sentence', (args, sentence) =>
  expect(run(...args)).toMatchObject({ status: 2, stdout: '', stderr: expect.stringMatching(sentence) as string }),
);

test('nothing is made for a hostile name, and no folder is left half made', async () => {
  const { createApp } = (await import(join(published, 'src/create.mjs'))) as typeof import('../src/create.mjs');
  const names = [
    '../x',
    '/tmp/x',
    'x/y',
    'X',
    '',
    '.',
    '-',
    'a b',
    'a\nb',
    '$(x)',
    '__proto__',
    '@a/../b',
    'a'.repeat(300),
  ];
  for (const name of names) expect(() => createApp(work, name), name).toThrow(/^the name must be .*, got ".*"$/);
  expect(() => makeFolder(work, 'half', [join(own, 'templates'), join(own, 'absent')], {})).toThrow(/^ENOENT/);
  expect([readdirSync(work), readdirSync(folder).sort()]).toEqual([['my-chat'], ['published', 'work']]);
});
