import { existsSync, writeFileSync } from 'node:fs';
import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { root, run } from '../lib/process.mjs';

const tool = (name: string, ...args: string[]): ReturnType<typeof run> =>
  run(process.execPath, [join(root, `tools/${name}.mjs`), ...args]);

it.each(['new', 'site', 'example'])('%s tells its use and does nothing else', async (name) => {
  const { code, output } = await tool(name, '--help');
  expect([code, output.startsWith(`npm run -s ${name} -- `) || output.startsWith(`npm run -s ${name} [`)]).toEqual([
    0,
    true,
  ]);
});

it.each([
  ['new', ['--wat'], 'new: expected --help, got --wat\n'],
  ['new', ['nothing', 'x'], 'new: the family must be one of '],
  ['site', ['--wat'], "site: Unknown option '--wat'"],
  ['site', ['--port', 'x'], 'site: --port must be a port from 0 to 65535, got x\n'],
  ['site', ['--port'], "site: Option '--port <value>' argument missing"],
  [
    'example',
    ['examples/nothere.mjs'],
    'example: expected a program that can be read, got ENOENT for examples/nothere.mjs\n',
  ],
  ['example', ['packages/nothere'], 'example: packages/nothere/README.md must have a ts block, but it has none\n'],
  ['example', [], 'example: expected a program, such as '],
] as const)('%s %j is one sentence', async (name, args, sentence) => {
  const { code, output } = await tool(name, ...args);
  expect([code, output.startsWith(sentence), output.trim().split('\n').length], output).toEqual([2, true, 1]);
});

describe('npm run example', () => {
  it('gives a program its arguments, shows what it prints as it comes, and ends as it does', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'kv-example-')),
      go = join(folder, 'go');
    // ends only after its first line was read
    writeFileSync(
      join(folder, 'mine.mjs'),
      `import { existsSync } from 'node:fs';
console.log(JSON.stringify(process.argv.slice(2)));
while (!existsSync(${JSON.stringify(go)})) await new Promise((resolve) => setTimeout(resolve, 20));
console.error('wrong');
process.exit(3);
`,
    );
    const { spawn } = await import('node:child_process'),
      child = spawn(process.execPath, [join(root, 'tools/example.mjs'), join(folder, 'mine.mjs'), 'a', '--b', 'c d']);
    let stdout = '',
      stderr = '';
    child.stderr.on('data', (text: Buffer) => (stderr += text.toString()));
    child.stdout.on('data', (text: Buffer) => {
      stdout += text.toString();
      if (stdout.includes('\n') && !existsSync(go)) writeFileSync(go, '');
    });
    const code = await new Promise((resolve) => child.on('close', resolve));
    expect([code, stdout, stderr]).toEqual([3, '["a","--b","c d"]\n', 'wrong\n']);
  }, 60_000);
});
