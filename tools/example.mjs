/**
 * `npm run example -- FILE.mjs [ARGUMENTS]` or `-- packages/FAMILY/NAME`: runs a program in any folder, with its
 * arguments, or the ts blocks of a package's README, from source; `-- PAGE.html` serves a page with kv.min.js and the
 * embedded model.
 */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, dirname, join } from 'node:path';
import { assemblePage, serveFolder } from './lib/page.mjs';
import { fail, run } from './lib/process.mjs';
import { install } from './lib/install.mjs';

const [, , what, ...args] = process.argv,
  isProgram = what?.endsWith('.mjs') === true;
if (what === undefined)
  fail('example: expected a program, such as examples/secret.mjs, or the folder of a package, got nothing', 2);
if (what === '--help' || what === '-h') {
  console.log(`npm run -s example -- PROGRAM.mjs [ARGUMENTS]
npm run -s example -- packages/FAMILY/NAME
npm run -s example -- PAGE.html

Runs a program, wherever it lies, or the examples of a package's README, against the sources of this clone; or serves
a page, with kv.min.js and the model of model-embedded/ in its folder, until Ctrl-C.

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
if (what.endsWith('.html')) {
  read(what);
  const { code, output } = await run('turbo', ['run', 'build', '--filter=@kv/page', '--output-logs=errors-only']);
  if (code !== 0) fail(`${output}example: kv.min.js could not be built: see above.`, code);
  const folder = mkdtempSync(join(tmpdir(), 'kv-page-'));
  assemblePage(folder, what);
  const { address, close } = await serveFolder(folder);
  console.log(`${address}${basename(what)}`);
  await new Promise((stopped) => process.once('SIGINT', stopped));
  await close();
  rmSync(folder, { recursive: true });
  process.exit();
}
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
