// npm run -s study -- hard-half/limits RESULTS.jsonl --model MODEL.gguf [--tokens 4096] [--prompts 5] [--workers 2]
// What an answer lacks though the value was kept: development prompts, asked after sets that know where the needle is.
// Goes on where RESULTS.jsonl ends, and prints how many each set answers.
import { fileURLToPath } from 'node:url';
import * as core from '@kv/core';
import { Sequence } from '@kv/models';
import { parsePolicy } from '@kv/policies';
import { random } from '@kv/tasks';
import { commandLine } from '../../bench/lib/command-line.mjs';
import { byWorkers, linesOf, using } from '../lib/prompts-by-workers.mjs';
import { answering, answerTo, promptOf, promptsLeft } from './prompts.mjs';
import { piece, sentencesSeen } from './sentences.mjs';
import { SHARES } from './ways.mjs';

const {
  path: results,
  tokens: TOKENS,
  ...options
} = commandLine({ model: undefined, tokens: 4096, prompts: 5, workers: 2, until: '23:59' }, 'the file of results');
const SINKS = 4,
  MORE = 64;

const ours = parsePolicy('outstandingSentences(kind=max)');
let told = [];
/** A policy that keeps the positions in `told`, in every head. */
const asTold = core.compose(
  core.scorer('told', { source: '', says: '', needs: [core.positions] }, ({ ops, at, positions }) => {
    const table = new Float32Array(at.length);
    for (const p of told) table[p] = 1;
    return ops.take(ops.from({ data: table, shape: [1, at.length] }), positions);
  })(),
  piece('topK'),
);
const seen = sentencesSeen(),
  cut = core.compose(piece('recency'), ...seen.pieces);

const rangeOf = (n) => Array.from({ length: n }, (_, i) => i),
  sorted = (positions) => [...new Set(positions)].sort((a, b) => a - b);
/** Returns at most `room` positions: `first`, then those of the units in `order` that fit. */
function filled(room, first, order, units) {
  const kept = new Set(first);
  for (const p of order.flatMap((u) => units[u])) if (kept.size < room) kept.add(p);
  return sorted(kept);
}

async function runPrompt(model, sentences, { form, i }) {
  const { documentIds, questionIds, valueTokens, value } = promptOf(model.tokenizer.encode, sentences, {
      ...{ set: 'dev', tokens: TOKENS, form, i },
    }),
    n = documentIds.length,
    ways = [],
    ask = async (name, budget, sequence) => {
      const { text } = await answerTo(sequence, questionIds);
      ways.push({ name, budget, answer: text, hit: text.includes(value) });
    };
  await using(new Sequence(model), async (whole) => {
    const after = (name, budget, positions) =>
      using(whole.fork(), async (copy) => {
        told = positions;
        await copy.evict(asTold, positions.length);
        await ask(name, budget, copy);
      });
    await whole.prefill(documentIds, { policies: [asTold, cut, ours] });
    await using(whole.fork(), (copy) => copy.evict(cut, '50%'));
    const units = seen.units(),
      all = rangeOf(units.length),
      needles = all.filter((u) => units[u].some((p) => valueTokens.includes(p))),
      first = [...rangeOf(SINKS), ...needles.flatMap((u) => units[u])],
      orders = {
        'needle and random sentences': random(`hard-half/limits/${form}/${i}`).sample(all, all.length),
        'needle and the sentences around it': all.toSorted(
          (a, b) => Math.abs(a - needles[0]) - Math.abs(b - needles[0]),
        ),
        'needle and the last sentences': all.toReversed(),
      };
    await using(whole.fork(), (copy) => ask('full', 'all', copy));
    await after('needle', 'itself', first);
    for (const budget of SHARES) {
      const kept = await using(whole.fork(), async (copy) => {
        await copy.evict(ours, budget);
        const [[row]] = copy.kept(); // the same in all heads
        await ask('outstandingSentences', budget, copy);
        return [...row];
      });
      const beside = [needles[0] - 1, needles.at(-1) + 1].flatMap((u) => units[u] ?? []);
      await after('its choice and the last 64', budget, sorted([...kept, ...rangeOf(n).slice(-MORE)]));
      await after('its choice and the first 64', budget, sorted([...kept, ...rangeOf(MORE)]));
      await after("its choice and the needle's neighbours", budget, sorted([...kept, ...beside]));
      for (const [name, order] of Object.entries(orders))
        await after(name, budget, filled(kept.length, first, order, units));
      // The same tokens fed as a separate text, without the document's positions and context.
      await using(new Sequence(model), async (short) => {
        await short.prefill(kept.map((p) => documentIds[p]));
        await ask('its choice, read anew', budget, short);
      });
    }
  });
  return { form, i, tokens: TOKENS, value, depth: Number((valueTokens[0] / n).toFixed(2)), ways };
}

await byWorkers(fileURLToPath(import.meta.url), {
  ...{
    jobs: () => promptsLeft(results, options.prompts),
    answer: answering(options.model, runPrompt),
    results,
  },
  ...{ workers: options.workers, until: options.until },
  told: ({ form, i }) => [form, i],
});
if (!process.env.KV_STUDY_WORKER) {
  const rows = Object.groupBy(
    linesOf(results).flatMap(({ ways }) => ways),
    ({ name, budget }) => `| ${name} | ${budget} |`,
  );
  console.log('| kept | budget | right |\n| --- | --- | --- |');
  for (const [key, all] of Object.entries(rows))
    console.log(`${key} ${all.filter(({ hit }) => hit).length}/${all.length} |`);
}
