/** `npm run example -- packages/FAMILY/NAME`: runs the ts blocks of a package's README from source. */
import { fail } from './lib/process.mjs';
import { install } from './lib/install.mjs';

const folder = process.argv[2];
if (folder === undefined)
  fail('example: expected the folder of a package, such as packages/scorers/caote, got nothing', 2);
await install('all');
const { examples, runExample } = await import('./lib/readme.mjs');
const blocks = examples(folder);
if (blocks.length === 0) fail(`example: ${folder}/README.md must have a ts block, but it has none`, 2);
for (const code of blocks) process.stdout.write(await runExample(folder, code));
