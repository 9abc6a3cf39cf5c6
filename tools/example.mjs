/**
 * `npm run example -- FILE.mjs` or `-- packages/FAMILY/NAME`: runs a program, wherever it lies, or the ts blocks of a
 * package's README, from source.
 */
import { existsSync, readFileSync } from 'node:fs';
import { basename, dirname } from 'node:path';
import { fail } from './lib/process.mjs';
import { install } from './lib/install.mjs';

const [, , what] = process.argv;
if (what === undefined)
  fail('example: expected a program, such as examples/secret.mjs, or the folder of a package, got nothing', 2);
await install('all');
const { examples, runExample } = await import('./lib/readme.mjs');
const isProgram = what.endsWith('.mjs');
if (isProgram && !existsSync(what)) fail(`example: expected a program that is there, got ${what}`, 2);
const blocks = isProgram ? [readFileSync(what, 'utf8')] : examples(what);
if (blocks.length === 0) fail(`example: ${what}/README.md must have a ts block, but it has none`, 2);
try {
  for (const code of blocks)
    process.stdout.write(await (isProgram ? runExample(dirname(what), code, basename(what)) : runExample(what, code)));
} catch (error) {
  process.stdout.write(error.stdout ?? '');
  fail(error.stderr || error.message);
}
