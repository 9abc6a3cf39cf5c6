// npm run -s study -- choose RESULTS.jsonl --model MODEL.gguf [--set confirm] [--beds inside,after,log,chains] [--prompts 120] [--workers 2] [--until 23:59]
// The exhaustive sweep that plan.md plans: what every candidate does on every prompt of every bed, measured as `choose`
// measures it. Goes on where RESULTS.jsonl ends; a line is one prompt with all its candidates.
import { basename } from 'node:path';
import { fileURLToPath } from 'node:url';
import { here } from '@kv/evaluation';
import { cpuRuntime, loadModel } from '@kv/models';
import { commandLine } from '../../bench/lib/command-line.mjs';
import { byWorkers, linesOf } from '../lib/prompts-by-workers.mjs';
import { BEDS, candidatesIn, POOL, promptOf } from './beds.mjs';

const { path: results, ...options } = commandLine(
    { model: undefined, set: 'confirm', beds: Object.keys(BEDS), prompts: POOL, workers: 2, until: '23:59' },
    'the file of results',
  ),
  reasoner = fileURLToPath(new URL('../../packages/model-reasoner', import.meta.url));

/** Opens a bed: its model, all its prompts, and its candidates. */
async function opened(bed) {
  const model = await loadModel(BEDS[bed].model === 'reasoner' ? reasoner : options.model, {
      runtime: cpuRuntime({ exact: false, threads: 1 }),
    }),
    // candidates are priced for the whole pool, however many prompts are run
    prompts = Array.from({ length: POOL }, (_, i) => promptOf(model, bed, options.set, i)),
    candidates = await candidatesIn(model, model.memory().cache.form, bed, prompts);
  return { model, candidates, runner: here({ model })({ kind: 'choose', prompts, candidates, answerTokens: 32 }) };
}

const round = (x) => Math.round(10 * x) / 10;

async function runPrompt(open, { bed, i }) {
  const { model, candidates, runner } = await open(bed),
    [started, before] = [performance.now(), process.cpuUsage()],
    { form, references, outcomes, refused } = await runner.run({
      prompts: [i],
      ladders: candidates.map((_, c) => [c]),
    });
  return {
    ...{
      bed,
      i,
      form,
      model: basename(model.name),
      candidates: candidates.map(({ policy, budget }) => [policy, budget]),
    },
    ...{ reference: references[0][1], outcomes: outcomes.map(([, c, outcome]) => [c, outcome]), refused },
    ...{ seconds: round((performance.now() - started) / 1000), cpu: round(process.cpuUsage(before).user / 1e6) },
  };
}

await byWorkers(fileURLToPath(import.meta.url), {
  jobs() {
    const done = new Set(linesOf(results).map(({ bed, i }) => `${bed}/${i}`));
    return Array.from({ length: options.prompts }, (_, i) => options.beds.map((bed) => ({ bed, i })))
      .flat()
      .filter(({ bed, i }) => !done.has(`${bed}/${i}`));
  },
  async answer() {
    const beds = new Map(),
      open = (bed) => {
        if (!beds.has(bed)) beds.set(bed, opened(bed));
        return beds.get(bed);
      };
    return { engine: (await open(options.beds[0])).model.engine, run: (job) => runPrompt(open, job) };
  },
  results,
  workers: options.workers,
  until: options.until,
  told: ({ bed, i, seconds, cpu }) => [bed, i, `${seconds} s, ${cpu} s of a core`],
});
