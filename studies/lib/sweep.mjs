import { basename } from 'node:path';
import { fileURLToPath } from 'node:url';
import { here } from '@kv/evaluation';
import { cpuRuntime, loadModel } from '@kv/models';
import { byWorkers, linesOf } from './prompts-by-workers.mjs';

const reasoner = fileURLToPath(new URL('../../packages/model-reasoner', import.meta.url)),
  round = (x) => Math.round(10 * x) / 10;

/**
 * Runs every candidate on every prompt of `beds`, measured as `choose` measures it, bed by bed in turn; goes on where
 * `results` ends. A line is one prompt with all its candidates.
 *
 * @param script the study's program, which each worker runs
 * @param beds by name: `model` ("reasoner", else that of the options), and `together`, prompts in a row of one text
 * @param promptOf returns prompt i of a bed: `(model, bed, i)`
 * @param candidatesIn returns the candidates of a bed, priced for all its prompts: `(model, form, bed, prompts)`
 * @param pool prompts of a bed that candidates are priced for, however many of them are run
 */
export const sweep = (script, { beds, promptOf, candidatesIn, pool, results, options }) => {
  async function opened(bed) {
    const model = await loadModel(beds[bed].model === 'reasoner' ? reasoner : options.model, {
        runtime: cpuRuntime({ exact: false, threads: 1 }),
      }),
      prompts = Array.from({ length: pool }, (_, i) => promptOf(model, bed, i)),
      candidates = await candidatesIn(model, model.memory().cache.form, bed, prompts);
    return { model, candidates, runner: here({ model })({ kind: 'choose', prompts, candidates, answerTokens: 32 }) };
  }

  async function run({ model, candidates, runner }, { bed, prompts }) {
    const [started, before] = [performance.now(), process.cpuUsage()],
      { form, references, outcomes, refused } = await runner.run({ prompts, ladders: candidates.map((_, c) => [c]) });
    return references.map(([i, reference]) => ({
      ...{ bed, i, form, model: basename(model.name), reference },
      candidates: candidates.map(({ policy, budget }) => [policy, budget]),
      outcomes: outcomes.flatMap(([of, c, outcome]) => (of === i ? [[c, outcome]] : [])),
      refused,
      ...{ seconds: round((performance.now() - started) / 1000), cpu: round(process.cpuUsage(before).user / 1e6) },
    }));
  }

  const togetherIn = (bed) => beds[bed].together ?? 1;
  return byWorkers(script, {
    jobs() {
      const done = new Set(linesOf(results).map(({ bed, i }) => `${bed}/${i}`));
      return Array.from({ length: options.prompts }, (_, i) =>
        options.beds.flatMap((bed) =>
          i % togetherIn(bed) === 0
            ? [{ bed, prompts: Array.from({ length: togetherIn(bed) }, (_, part) => i + part) }]
            : [],
        ),
      )
        .flat()
        .filter(({ bed, prompts: [first] }) => !done.has(`${bed}/${first}`));
    },
    async answer() {
      const open = new Map(),
        bedOf = (bed) => {
          if (!open.has(bed)) open.set(bed, opened(bed));
          return open.get(bed);
        };
      return {
        engine: (await bedOf(options.beds[0])).model.engine,
        run: async (job) => run(await bedOf(job.bed), job),
      };
    },
    results,
    workers: options.workers,
    until: options.until,
    told: ([{ bed, i, seconds, cpu }]) => [bed, i, `${seconds} s, ${cpu} s of a core`],
  });
};
