// npm run -s study -- choose RESULTS.jsonl --model MODEL.gguf [--set confirm] [--beds inside,after,log,chains] [--prompts 120] [--workers 2] [--until 23:59]
// The exhaustive sweep that plan.md plans.
import { fileURLToPath } from 'node:url';
import { commandLine } from '../../bench/lib/command-line.mjs';
import { sweep } from '../lib/sweep.mjs';
import { BEDS, candidatesIn, POOL, promptOf } from './beds.mjs';

const { path: results, ...options } = commandLine(
  { model: undefined, set: 'confirm', beds: Object.keys(BEDS), prompts: POOL, workers: 2, until: '23:59' },
  'the file of results',
);

await sweep(fileURLToPath(import.meta.url), {
  ...{ beds: BEDS, candidatesIn, pool: POOL, results, options },
  promptOf: (model, bed, i) => promptOf(model, bed, options.set, i),
});
