import { commonHeads } from '@kv/engine';
/**
 * A needle and the speed of several checkpoints, prompts and models in turns: hits of the full cache and of some
 * policies, the slots and bytes that each holds, slots freed by sliding windows, prefill and decoding speed as ratios.
 * Fetches SmolLM2-135M and Gemma 3 270M if no file is given.
 *
 *   npm run bench families      or, once built:   node bench/families.bench.mjs --prompts 8 --tokens 1024 --budget 25% FILE...
 *
 * Few prompts are a screening: they can show a fault, not a difference.
 */
import { spawnSync } from 'node:child_process';
import { basename } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { decode, loadModel, Sequence } from '@kv/models';
import { parsePolicy } from '@kv/policies';
import { exactMatch, heldOutBook, needle, NEEDLE_NEW_TOKENS, NEEDLE_STOP, sentencesOf, wilson } from '@kv/tasks';

const { values: options, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    prompts: { type: 'string', default: '8' },
    tokens: { type: 'string', default: '1024' },
    budget: { type: 'string', default: '25%' },
    steps: { type: 'string', default: '32' },
    policies: {
      type: 'string',
      default:
        'streaming; snapkv(window=8); snapkv(window=8,kernel=1) ∘ mandatory(sinks=4) ∘ sentences(maxSize=32) ∘ wholeUnits(last=fill); taFast(reach=10,slots=12)',
    },
  },
});
const [prompts, tokens, steps] = [options.prompts, options.tokens, options.steps].map(Number);
const fetched = (tool) =>
  spawnSync(process.execPath, [fileURLToPath(new URL(`../tools/${tool}.mjs`, import.meta.url))], {
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'inherit'],
  }).stdout.trim();
const files = positionals.length > 0 ? positionals : [fetched('smollm2'), fetched('gemma3')],
  ways = [undefined, ...options.policies.split(';').map((text) => text.trim())];
const book = sentencesOf(await heldOutBook());

const median = (xs) => [...xs].sort((a, b) => a - b)[Math.floor(xs.length / 2)];
const count = (rows) => rows.flat().reduce((sum, row) => sum + row.length, 0);

/** Reads one prompt once; every policy evicts a fork of it and answers. */
async function run(model, i) {
  const { documentIds, questionIds, value } = needle({
      encode: model.tokenizer.encode,
      sentences: book,
      tokens,
      depth: ((i % 5) + 0.5) / 5,
      seed: `families/${i}`,
      form: 'number',
    }),
    ids = [...documentIds, ...questionIds],
    whole = new Sequence(model),
    policies = ways.map((text) => text && parsePolicy(text));
  try {
    const began = performance.now();
    await whole.prefill(ids, { policies: policies.filter(Boolean) });
    const prefill = performance.now() - began,
      freed = whole.memory.progress.unreachable,
      answers = [];
    for (const policy of policies) {
      const copy = whole.fork();
      try {
        if (policy) await copy.evict(policy, options.budget);
        const slots = count(copy.kept()),
          bytes = copy.memory.ledger.entry('cache').live;
        let text = '';
        for await (const chunk of decode(copy, { maxNewTokens: NEEDLE_NEW_TOKENS, stop: NEEDLE_STOP }))
          text += chunk.text;
        answers.push({ hit: exactMatch(text, value), slots, bytes });
      } finally {
        copy.destroy();
      }
    }
    const start = performance.now();
    for (let step = 0; step < steps; step++) await whole.step(await whole.next());
    return { answers, freed, fed: ids.length, prefill, decode: (performance.now() - start) / steps };
  } finally {
    whole.destroy();
  }
}

const models = [];
for (const file of files) models.push(await loadModel(file));
const runs = models.map(() => []);
for (let i = 0; i < prompts; i++)
  for (const [m, model] of models.entries()) {
    runs[m].push(await run(model, i));
    console.error(`prompt ${i + 1} of ${prompts}, ${basename(files[m])}`);
  }

console.log(
  `Screening, n = ${prompts} prompts: a 7-digit number in ${tokens} tokens of a novel, the question inside the prompt, evicted once to ${options.budget}; ${models[0].engine}.\n`,
);
console.log(
  '| checkpoint | policy | hits (Wilson 95 %) | slots of all that were fed | keys and values |\n| --- | --- | --- | --- | --- |',
);
for (const [m, model] of models.entries()) {
  const { layers } = model.config,
    { kvHeads } = commonHeads(model.config);
  for (const [w, text] of ways.entries()) {
    const all = runs[m].map(({ answers }) => answers[w]),
      hits = all.filter(({ hit }) => hit).length,
      { low, high } = wilson(hits, prompts),
      fed = runs[m].reduce((sum, { fed }) => sum + fed * layers * kvHeads, 0);
    console.log(
      `| ${basename(files[m])} | ${text ?? 'full cache'} | ${hits} of ${prompts} (${(100 * low).toFixed(0)} to ${(100 * high).toFixed(0)} %) | ${((100 * all.reduce((sum, { slots }) => sum + slots, 0)) / fed).toFixed(1)} % | ${(median(all.map(({ bytes }) => bytes)) / 2 ** 20).toFixed(1)} MiB |`,
    );
  }
}
/** Formats the best of all prompts (other work on the machine only slows a run), then the median. */
const fastest = (xs) => `${Math.max(...xs).toFixed(1)} (median ${median(xs).toFixed(1)})`,
  rates = (m) => ({
    prefill: runs[m].map(({ fed, prefill }) => (1000 * fed) / prefill),
    decode: runs[m].map(({ decode }) => 1000 / decode),
  }),
  against = (m, what) => (Math.max(...rates(m)[what]) / Math.max(...rates(0)[what])).toFixed(2);
console.log(
  '\n| checkpoint | slots that windows freed | prefill, tokens/s | decoding, tokens/s | prefill, times the first | decoding, times the first |\n| --- | --- | --- | --- | --- | --- |',
);
for (const [m, model] of models.entries()) {
  const { layers, kvHeads } = model.config,
    { prefill, decode } = rates(m);
  console.log(
    `| ${basename(files[m])} | ${median(runs[m].map((r) => r.freed))} of ${median(runs[m].map(({ fed }) => fed * layers * kvHeads))} | ${fastest(prefill)} | ${fastest(decode)} | ${against(m, 'prefill')} | ${against(m, 'decode')} |`,
  );
}
for (const model of models) model.destroy();
