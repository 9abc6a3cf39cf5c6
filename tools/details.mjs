/**
 * `node tools/details.mjs [development | test] [--misses]`: precision and recall of the detector `details` of
 * Transactional Attention on labelled snippets, beside `regex` and `semantic`, and what it finds in a novel.
 */
import { join } from 'node:path';
import { install } from './lib/install.mjs';
import { root, showUsage } from './lib/process.mjs';

showUsage(import.meta.filename);
await install('all');
const { runSource } = await import('./lib/from-source.mjs');
process.exitCode = await runSource(join(root, 'tools/detector/details.ts'), [
  join(root, 'tools/detector/details'),
  join(root, 'packages/tasks/data/tom-sawyer.txt'),
  ...process.argv.slice(2),
]);
