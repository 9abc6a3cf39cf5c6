// npm run -s study -- methods RESULTS.jsonl --model MODEL.gguf [--set confirm] [--beds inside,chains] [--prompts 200] [--workers 2] [--until 23:59]
// What every method does on every prompt of every bed of plan.md.
import { fileURLToPath } from 'node:url';
import { commandLine } from '../../bench/lib/command-line.mjs';
import { sweep } from '../lib/sweep.mjs';
import { BEDS, candidatesIn, PROMPTS, promptOf } from './beds.mjs';

const { path: results, ...options } = commandLine(
  { model: undefined, set: 'confirm', beds: Object.keys(BEDS), prompts: PROMPTS, workers: 2, until: '23:59' },
  'the file of results',
);

await sweep(fileURLToPath(import.meta.url), {
  ...{ beds: BEDS, candidatesIn, pool: PROMPTS, results, options },
  promptOf: (model, bed, i) => promptOf(model, bed, options.set, i),
});
