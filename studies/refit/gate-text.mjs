// npm run -s study -- refit/gate-text TEXT.txt
// Writes the part of the novel that no document of this study is of, for `kv gate`.
import { writeFileSync } from 'node:fs';
import { commandLine } from '../../bench/lib/command-line.mjs';
import { book } from './prompts.mjs';

const { path } = commandLine({}, 'the file of the text'),
  { rest } = await book();
writeFileSync(path, `${rest}\n`);
console.log(`${rest.length} characters in ${path}`);
