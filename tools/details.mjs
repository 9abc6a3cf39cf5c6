/**
 * `node tools/details.mjs [development | test] [--misses]`: precision and recall of the detector `details` of
 * Transactional Attention on labelled snippets, beside `regex` and `semantic`, and what it finds in a novel. `outside
 * CLONE [0 | 1]`: recall of the secrets that CredSweeper's tests label, in a clone of github.com/Samsung/CredSweeper, or
 * in one half of its files. `life MODEL [POLICY...] [--conversations 1] [--budget 384] [--block 0]`: a password and an
 * order number told early in a conversation of 30 turns, and asked for at its end.
 */
import { join } from 'node:path';
import { install } from './lib/install.mjs';
import { root, showUsage } from './lib/process.mjs';

showUsage(import.meta.filename);
await install('all');
const { runSource } = await import('./lib/from-source.mjs'),
  [what, ...rest] = process.argv.slice(2);
process.exitCode =
  what === 'life'
    ? await runSource(join(root, 'tools/agent-life.ts'), rest)
    : await runSource(join(root, 'tools/details.ts'), [
        join(root, 'tools/detector/details'),
        join(root, 'packages/tasks/data/tom-sawyer.txt'),
        ...process.argv.slice(2),
      ]);
