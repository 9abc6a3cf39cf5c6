/**
 * `npm run example -- FILE.mjs [ARGUMENTS]` or `-- packages/FAMILY/NAME`: runs a program in any folder, with its
 * arguments, or the ts blocks of a package's README, from source; `-- FOLDER [ARGUMENTS]` serves a page by Vite.
 */
import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { env, fail } from './lib/process.mjs';
import { install } from './lib/install.mjs';

const [, , what, ...args] = process.argv,
  isProgram = what?.endsWith('.mjs') === true;
if (what === undefined)
  fail('example: expected a program, such as examples/secret.mjs, or the folder of a package, got nothing', 2);
if (what === '--help' || what === '-h') {
  console.log(`npm run -s example -- PROGRAM.mjs [ARGUMENTS]
npm run -s example -- packages/FAMILY/NAME
npm run -s example -- PAGE [OPTIONS OF VITE]

Runs a program, wherever it lies, or the examples of a package's README, against the sources of this clone; or serves
a page, a folder with a vite.config.js.

  npm run -s example -- examples/secret.mjs`);
  process.exit(0);
}
function read(file) {
  try {
    return readFileSync(file, 'utf8');
  } catch (error) {
    fail(`example: expected a program that can be read, got ${error.code} for ${file}`, 2);
  }
}
const program = isProgram ? read(what) : undefined;
await install('all');
if (existsSync(join(what, 'vite.config.js')))
  process.exit(spawnSync('npx', ['vite', ...args], { cwd: what, env, stdio: 'inherit' }).status ?? 1);
const { examples, runExample } = await import('./lib/readme.mjs'),
  blocks = isProgram ? [program] : examples(what);
if (blocks.length === 0) fail(`example: ${what}/README.md must have a ts block, but it has none`, 2);
try {
  for (const code of blocks) {
    const ended = await runExample(isProgram ? dirname(what) : what, code, isProgram ? basename(what) : undefined, {
      args,
      show: true,
    });
    if (ended !== 0) process.exit(ended);
  }
} catch (error) {
  fail(error.message);
}
