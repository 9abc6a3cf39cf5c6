/**
 * `node tools/calibrate.mjs MODEL [TEXT] [TOKENS] [FOLDER]`: writes statistics of a model's queries over a plain text
 * (default: 4,096 tokens of Tom Sawyer) to FOLDER (default: next to the model): `pre-rope.safetensors` for
 * TriAttention, `query-statistics.safetensors` for expectedAttentionStats, `q-filters.safetensors` for Q-Filters, and
 * `full_attention_heads.tsv` for DuoAttention, unless that file exists.
 */
import { join } from 'node:path';
import { install } from './lib/install.mjs';
import { fail, root, showUsage } from './lib/process.mjs';

showUsage(import.meta.filename);
const [model, text = join(root, 'packages/tasks/data/tom-sawyer.txt'), ...rest] = process.argv.slice(2);
if (model === undefined) fail('calibrate: expected the folder of a checkpoint or a .gguf, got nothing', 2);
await install('all');
const { runSource } = await import('./lib/from-source.mjs');
process.exitCode = await runSource(join(root, 'tools/calibrate.ts'), [model, text, ...rest]);
