// npm run -s study -- hard-half/rows RESULTS.jsonl --model MODEL.gguf [--prompts 10] [--workers 2]
// What stands for the rows that hold a token where some layers hold a window alone: development documents of a model
// without windows, of which windows are made, scored without answering. Prints how many slots the needle's sentence
// needs, and of how many documents the value is kept whole, by statistic.
import { fileURLToPath } from 'node:url';
import * as core from '@kv/core';
import { readCpu } from '@kv/cpu';
import { Sequence } from '@kv/models';
import { commandLine } from '../../bench/lib/command-line.mjs';
import { byWorkers, linesOf, using } from '../lib/prompts-by-workers.mjs';
import { answering, promptOf, promptsLeft } from './prompts.mjs';
import { piece, sentencesSeen } from './sentences.mjs';

const {
  path: results,
  tokens: TOKENS,
  ...options
} = commandLine({ model: undefined, tokens: 1024, prompts: 10, workers: 2 }, 'the file of results');
const SINKS = 4,
  BUDGETS = [0.25, 0.1, 0.05],
  WINDOWS = [TOKENS / 2, TOKENS / 4, TOKENS / 8];

const largest = (xs) => xs.reduce((a, b) => Math.max(a, b)),
  mean = (xs) => xs.reduce((a, b) => a + b, 0) / xs.length,
  deviations = (xs) => {
    const m = mean(xs),
      s = Math.sqrt(mean(xs.map((x) => (x - m) ** 2)));
    return xs.map((x) => (x - m) / Math.max(s, 1e-8));
  };
/** Joins a token's scores over the rows that hold it; the others have none. */
const overHolders = (join) => (rows, n) =>
    Array.from({ length: n }, (_, p) => join(rows.flatMap((row) => row[p] ?? []))),
  /** The same, over the rows that hold every token. */
  overComplete = (join) => (rows, n) =>
    overHolders(join)(
      rows.filter((row) => row[0] !== undefined),
      n,
    );
const STATISTICS = {
  'largest of those that hold it': overHolders(largest),
  'mean of those that hold it': overHolders(mean),
  'their sum by the root of their number': overHolders((xs) => mean(xs) * Math.sqrt(xs.length)),
  'their largest, in deviations among tokens that as many hold': (rows, n) => {
    const joined = overHolders(largest)(rows, n),
      held = joined.map((_, p) => rows.filter((row) => row[p] !== undefined).length),
      groups = [...new Set(held)].map((count) => held.flatMap((h, p) => (h === count ? [p] : [])));
    const out = [...joined];
    for (const group of groups)
      deviations(group.map((p) => joined[p])).forEach((x, k) => {
        out[group[k]] = x;
      });
    return out;
  },
  'largest of rows that hold all': overComplete(largest),
  'mean of rows that hold all': overComplete(mean),
};
/** Layouts of layers: all with full attention, or every n-th, and the others with a window. */
const LAYOUTS = [
  { name: 'none', every: 1, window: 0 },
  ...[2, 6].flatMap((every) => WINDOWS.map((window) => ({ name: `${window}, all but 1 of ${every}`, every, window }))),
];

/** Returns the number of slots at which all the value's sentences are kept, and whether they are at each budget. */
function found(scores, units, value) {
  const order = units
    .map((unit) => ({ unit, worth: unit[0] < SINKS ? Infinity : mean(unit.map((p) => scores[p])) }))
    .sort((a, b) => b.worth - a.worth);
  let slots = 0,
    needed = 0;
  for (const { unit } of order) {
    slots += unit.length;
    if (unit.some((p) => value.includes(p))) needed = slots;
  }
  return { slots: needed, whole: BUDGETS.map((share) => needed <= Math.floor(share * scores.length)) };
}

let seen = [];
const sentences = sentencesSeen(),
  scored = core.compose(
    ...[piece('leverage'), piece('zScore')],
    core.transform('watch', { source: '', says: '' }, ({ at, scores }) => {
      const { data, shape } = readCpu(scores);
      seen[at.layer] = Array.from({ length: shape[0] }, (_, r) => [...data.slice(r * shape[1], (r + 1) * shape[1])]);
      return scores;
    })(),
    ...sentences.pieces,
  ),
  last = core.compose(piece('recency'), piece('topK'));

async function runPrompt(model, book, { form, i }) {
  const { documentIds, valueTokens } = promptOf(model.tokenizer.encode, book, {
      ...{ set: 'dev', tokens: TOKENS, form, i },
    }),
    n = documentIds.length;
  return using(new Sequence(model), async (whole) => {
    await whole.prefill(documentIds, { policies: [scored, last] });
    /** Returns a function for the scores of every layer and head, limited to the last `window` tokens. */
    const rowsOf = (window) =>
      using(whole.fork(), async (copy) => {
        seen = [];
        if (window < n) await copy.evict(last, window);
        await copy.evict(scored, Math.floor(0.9 * Math.min(window, n)));
        return seen.map((heads) => heads.map((row) => [...new Array(n - row.length).fill(undefined), ...row]));
      });
    const by = new Map();
    for (const window of [n, ...WINDOWS]) by.set(window, await rowsOf(window));
    const ways = LAYOUTS.flatMap(({ name, every, window }) => {
      const layers = by.get(n).map((heads, l) => ((l + 1) % every === 0 ? heads : by.get(window)[l])),
        models = [layers.flat(), ...layers[0].map((_, h) => layers.map((heads) => heads[h]))];
      return models.flatMap((rows, m) =>
        Object.entries(STATISTICS).map(([statistic, join]) => ({
          ...{ name, heads: m === 0 ? 'all' : 'one', statistic },
          ...found(join(rows, n), sentences.units(), valueTokens),
        })),
      );
    });
    return { form, i, ways };
  });
}

await byWorkers(fileURLToPath(import.meta.url), {
  ...{
    jobs: () => promptsLeft(results, options.prompts),
    answer: answering(options.model, runPrompt),
    results,
  },
  ...{ workers: options.workers, until: '23:59' },
  told: ({ form, i }) => [form, i],
});
if (!process.env.KV_STUDY_WORKER) {
  const rows = Object.groupBy(
    linesOf(results).flatMap(({ ways }) => ways),
    ({ name, heads, statistic }) => `| ${name} | ${heads} | ${statistic} |`,
  );
  console.log('| windows | KV heads | score of a token | models | median | most | value whole at 25 / 10 / 5 %, % |');
  console.log('| --- | --- | --- | --- | --- | --- | --- |');
  for (const [key, all] of Object.entries(rows)) {
    const slots = all.map((way) => way.slots).sort((a, b) => a - b),
      whole = BUDGETS.map((_, b) => Math.round(100 * mean(all.map((way) => Number(way.whole[b])))));
    console.log(`${key} ${all.length} | ${slots[slots.length >> 1]} | ${slots.at(-1)} | ${whole.join(' / ')} |`);
  }
}
