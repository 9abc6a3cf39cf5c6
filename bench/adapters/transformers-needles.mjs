// Needle prompts in transformers.js: answers of the library alone, with its full cache, and under policies, every prompt
// by all of them in turn. SmolLM2-135M (`node tools/smollm2.mjs`), or a folder of an ONNX export in f32.
//   node bench/adapters/transformers-needles.mjs MODEL.gguf|FOLDER [--prompts 200] [--tokens 256] [--budget 64] [--threads 1]
//     [--policies 'taFast; snapkv(window=16)'] [--store FILE.jsonl] [--minutes 600] [--out FILE.md]
// Needs the packages built. Answers go to --store as they come and are not asked for again, so an interrupted run
// resumes. After --minutes it writes the table of the prompts that all have answered.
import { appendFileSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { cpus, tmpdir } from 'node:os';
import { basename, dirname, join, resolve } from 'node:path';
import { StoppingCriteria } from '@huggingface/transformers';
import { withPolicy } from '@kv/adapters-transformers';
import { createTokenizer } from '@kv/checkpoints';
import { parsePolicy } from '@kv/policies';
import {
  exactMatch,
  heldOutBook,
  mcnemar,
  needle,
  NEEDLE_NEW_TOKENS,
  NEEDLE_STOP,
  pairedDifference,
  sentencesOf,
  wilson,
} from '@kv/tasks';
import { inputsOf, loaded, onnxFolder } from '../lib/onnx.mjs';
import { commandLine } from '../lib/command-line.mjs';
import { table } from '../lib/table.mjs';

const {
    path,
    prompts,
    tokens,
    budget,
    threads,
    policies,
    minutes,
    out,
    store: file,
  } = commandLine(
    {
      prompts: 200,
      tokens: 256,
      budget: 64,
      threads: 1,
      policies: 'taFast(reach=12,slots=16); snapkv(window=16); keydiff',
      store: join(tmpdir(), 'kv-transformers-needles.jsonl'),
      minutes: 600,
      out: undefined,
    },
    'a .gguf file or the folder of an ONNX export',
  ),
  store = resolve(file),
  ways = ['full', ...policies.split(';').map((text) => text.trim())],
  ends = performance.now() + 60_000 * minutes;

const folder = await onnxFolder(path),
  { model, tokenizer, source } = await loaded(folder, { threads }),
  { encode } = createTokenizer(JSON.parse(readFileSync(join(folder, 'tokenizer.json'), 'utf8'))),
  book = sentencesOf(await heldOutBook()),
  models = new Map([['full', model]]);
for (const way of ways.slice(1))
  models.set(way, await withPolicy(model, { policy: parsePolicy(way), budget, source, tokenizer }));

class Stops extends StoppingCriteria {
  constructor(fed) {
    super();
    this.fed = fed;
  }
  _call(all) {
    return all.map((ids) => NEEDLE_STOP.some((stop) => textOf(ids.slice(this.fed)).includes(stop)));
  }
}
const textOf = (ids) => tokenizer.decode(Array.from(ids, Number), { skip_special_tokens: true });

/** Returns one prompt's answer and its processor time. */
async function asked(way, seed) {
  const { documentIds, questionIds, value } = needle({
      encode,
      sentences: book,
      tokens,
      depth: ((seed % 5) + 0.5) / 5,
      seed: `transformers/${seed}`,
    }),
    ids = [...documentIds, ...questionIds],
    before = process.cpuUsage(),
    out = await models.get(way).generate({
      ...inputsOf(ids),
      do_sample: false,
      max_new_tokens: NEEDLE_NEW_TOKENS,
      stopping_criteria: new Stops(ids.length),
    }),
    { user, system } = process.cpuUsage(before),
    answer = textOf(out.data.slice(ids.length));
  return { value, answer, hit: exactMatch(answer, value), seconds: (user + system) / 1e6 };
}

const settings = JSON.stringify([basename(path), tokens, budget]),
  stored = new Map(),
  key = (way, seed) => `${way} ${seed}`;
for (const line of existsSync(store) ? readFileSync(store, 'utf8').split('\n') : []) {
  // a line that a killed run left incomplete is asked again
  const row = line.endsWith('}') ? JSON.parse(line) : {};
  if (row.settings === settings) stored.set(key(row.way, row.seed), row);
}
mkdirSync(dirname(store), { recursive: true });
for (let seed = 0; seed < prompts && performance.now() < ends; seed++)
  for (let i = 0; i < ways.length; i++) {
    const way = ways[(i + seed) % ways.length];
    if (stored.has(key(way, seed))) continue;
    const row = { settings, way, seed, ...(await asked(way, seed)) };
    stored.set(key(way, seed), row);
    appendFileSync(store, `\n${JSON.stringify(row)}`);
    console.log(seed, way, row.value, JSON.stringify(row.answer), row.seconds.toFixed(1));
  }

const done = Array.from({ length: prompts }, (_, seed) => ways.map((way) => stored.get(key(way, seed)))).filter(
    (rows) => rows.every(Boolean),
  ),
  n = done.length,
  share = (x) => `${(100 * x).toFixed(1)}`;
const rows = ways.map((way, w) => {
  const hits = done.filter((of) => of[w].hit).length,
    { low, high } = wilson(hits, n),
    lost = done.filter((of) => of[0].hit && !of[w].hit).length,
    won = done.filter((of) => !of[0].hit && of[w].hit).length,
    beside = pairedDifference(done.map((of) => [Number(of[w].hit) - Number(of[0].hit)])),
    cost = done.reduce((sum, of) => sum + of[w].seconds, 0) / n;
  return [
    w === 0 ? 'transformers.js alone, full cache' : `\`${way}\``,
    `${hits} of ${n}`,
    `${share(hits / n)} (${share(low)}-${share(high)})`,
    ...(w === 0
      ? ['', '', '']
      : [
          `${share(beside.difference)} (${share(beside.low)} to ${share(beside.high)})`,
          `${lost}, ${won}`,
          mcnemar(lost, won).toPrecision(2),
        ]),
    cost.toFixed(2),
  ];
});
const text = `# Needles in transformers.js

${new Date().toISOString().slice(0, 10)}, ${cpus()[0].model.trim()}, ${threads} thread${threads === 1 ? '' : 's'}, Node ${process.version}, ${basename(path)} exported in f32; ${n} prompts of ${tokens} tokens, each with one credential at one of five depths
and the question behind it, fed as one prompt; after it ${budget} slots of every layer and KV head (${share(budget / tokens)} %) stay. Greedy; answered: the whole value and nothing else before the first full stop.

${table([
  [
    '',
    'answered',
    '% (95 %, Wilson)',
    'points against the full cache (95 %, paired bootstrap)',
    'lost, won',
    'p (McNemar)',
    'CPU seconds a prompt',
  ],
  ...rows,
])}

\`node bench/adapters/transformers-needles.mjs MODEL.gguf --prompts ${prompts} --tokens ${tokens} --budget ${budget} --policies '${ways.slice(1).join('; ')}'\`
`;
console.log(text);
if (out) writeFileSync(out, text);
