/**
 * `node tools/detector.mjs MODEL --texts FOLDER [--out FILE] [--seed 1] [--times 30] [--units 64] [--epochs 8]
 * [--states FILE]`: trains the detector `learned` of Transactional Attention on a model's hidden states, measures it on
 * held-out text and patterns, and writes `learned-detector.safetensors` next to the model. FOLDER holds the plain texts
 * to learn from; `--states` caches the hidden states in FILE and reads them from there the next time.
 */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { install } from './lib/install.mjs';
import { fail, root, showUsage } from './lib/process.mjs';

showUsage(import.meta.filename);
const args = process.argv.slice(2),
  texts = args.find((_, i) => args[i - 1] === '--texts') ?? args.find((arg) => arg.startsWith('--texts='))?.slice(8);
if (args.length === 0 || args[0].startsWith('-'))
  fail('detector: expected the folder of a checkpoint or a .gguf, got nothing', 2);
if (texts === undefined || !existsSync(texts))
  fail(`detector: expected a folder of plain texts, got ${texts ?? 'none'}: name one with --texts`, 2);
await install('all');
const { runSource } = await import('./lib/from-source.mjs');
process.exitCode = await runSource(join(root, 'tools/detector.ts'), [
  '--book',
  join(root, 'packages/tasks/data/tom-sawyer.txt'),
  ...args,
]);
