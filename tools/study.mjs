/**
 * `npm run -s study`: lists the studies and their programs. `npm run -s study -- NAME [ARGUMENTS]`: builds what a study
 * needs and runs its `run.mjs` with these arguments; `NAME/PROGRAM` runs another program of it.
 */
import { spawn } from 'node:child_process';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { constants } from 'node:os';
import { join } from 'node:path';
import { prepare } from './lib/kv.mjs';
import { fail, root } from './lib/process.mjs';

const folder = join(root, 'studies'),
  [what, ...args] = process.argv.slice(2),
  studies = readdirSync(folder).filter((name) => existsSync(join(folder, name, 'README.md')));

/** Reads a study's title and the usage of its programs from the first lines of these files. */
function about(name) {
  const firstLine = (file) => readFileSync(join(folder, name, file), 'utf8').split('\n', 1)[0],
    usages = readdirSync(join(folder, name))
      .filter((file) => file.endsWith('.mjs'))
      .map(firstLine)
      .filter((line) => line.startsWith('// npm run -s study -- '));
  return [`${name}: ${firstLine('README.md').slice(2)}`, ...usages.map((line) => `  ${line.slice(3)}`)].join('\n');
}

if (what === undefined || what === '--help' || what === '-h') {
  console.log(`${studies.map(about).join('\n\n')}\n\nWhat each asked and found: studies/NAME/README.md`);
  process.exit(0);
}
const [name, program = 'run'] = what.split('/');
if (!studies.includes(name)) fail(`study: expected ${studies.join(' or ')}, got ${JSON.stringify(name)}`, 2);
const script = join(folder, name, `${program.replace(/[.]mjs$/, '')}.mjs`);
if (!existsSync(script))
  fail(`study: expected a program of ${name}, got none; studies/${name}/README.md says how it is run`, 2);
await prepare(args, 'studies', '@kv/studies');
spawn(process.execPath, [script, ...args], { cwd: process.cwd(), stdio: 'inherit' })
  .on('error', ({ message }) => fail(`study: ${message}`))
  .on('close', (code, signal) => process.exit(code ?? 128 + constants.signals[signal]));
// leave Ctrl-C to the program
for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => {});
