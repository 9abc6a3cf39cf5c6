/** `npm run readmes`: writes the tables of options, methods and packages in READMEs from what the packages declare. */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { install } from './lib/install.mjs';
import { fail, root } from './lib/process.mjs';

await install('all');
const { declared } = await import('./lib/declared.mjs');
const { readmes, refreshed } = await import('./lib/readme-tables.mjs');
const all = await declared();
for (const file of readmes()) {
  let text;
  try {
    text = refreshed(file, all);
  } catch (error) {
    fail(`readmes: ${error.message}`);
  }
  if (text === readFileSync(join(root, file), 'utf8')) continue;
  writeFileSync(join(root, file), text);
  console.log(file);
}
