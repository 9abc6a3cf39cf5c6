// node studies/hard-half/run.mjs RESULTS.jsonl --model MODEL.gguf [--set confirm] [--tokens 1024] [--prompts 200]
// [--stages 0,1,2,3,4] [--workers 2] [--until 07:20]
// One prefill of the document a prompt; every policy evicts a fork of it at every budget, and is asked afterwards.
// Goes on where RESULTS.jsonl ends.
import { fork } from 'node:child_process';
import { appendFileSync, existsSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { load } from './packages.mjs';
import { promptOf } from './prompts.mjs';
import { FORMS, SHARES, STAGES } from './ways.mjs';

const { cpuRuntime, decode, loadModel, Sequence } = await load('models'),
  { parsePolicy } = await load('policies'),
  { heldOutBook, sentencesOf } = await load('tasks');

const {
  values: options,
  positionals: [results],
} = parseArgs({
  allowPositionals: true,
  options: {
    model: { type: 'string' },
    set: { type: 'string', default: 'confirm' },
    tokens: { type: 'string', default: '1024' },
    prompts: { type: 'string', default: '200' },
    stages: { type: 'string', default: STAGES.map(({ stage }) => stage).join() },
    workers: { type: 'string', default: '2' },
    until: { type: 'string', default: '23:59' },
  },
});
const TOKENS = Number(options.tokens),
  STOP = ['.', '\n'],
  ANSWER = 28;

/** What a signal's second pass gave each layer, for all budgets of a prompt. */
const known = new Map();
const once = (key, make) => {
  if (!known.has(key)) known.set(key, make());
  return known.get(key);
};
/** A policy whose second pass is made once a prompt and not once a budget: kept sets are the same. */
function sharing(text) {
  const policy = parsePolicy(text),
    needs = (all) =>
      all.map((need) =>
        need.provide
          ? { ...need, provide: (engine, layer) => once(`${need.id} ${layer}`, () => need.provide(engine, layer)) }
          : need,
      );
  return { ...policy, atoms: policy.atoms.map((atom) => ({ ...atom, needs: needs(atom.needs) })) };
}

/** The greedy answer and its tokens. */
async function greedy(sequence) {
  const tokens = [];
  let text = '';
  for await (const chunk of decode(sequence, { maxNewTokens: ANSWER, stop: STOP })) {
    text += chunk.text;
    if (chunk.token !== undefined) tokens.push(chunk.token);
  }
  return { text, tokens };
}

async function using(sequence, work) {
  try {
    return await work(sequence);
  } finally {
    sequence.destroy();
  }
}

const timed = async (work) => {
  const started = performance.now();
  await work();
  return Math.round(performance.now() - started);
};

async function runPrompt(model, sentences, { form, i, stage }) {
  const { documentIds, questionIds, valueTokens, value } = promptOf(model.tokenizer.encode, sentences, {
    set: options.set,
    tokens: TOKENS,
    form,
    i,
  });
  known.clear();
  const ways = STAGES[stage].policies.map((name) => ({ name, policy: sharing(name) }));
  return using(new Sequence(model), async (whole) => {
    const prefill = await timed(() => whole.prefill(documentIds, { policies: ways.map(({ policy }) => policy) })),
      ask = async (sequence) => {
        await sequence.append(questionIds);
        sequence.settle();
        return greedy(sequence);
      };
    const full = await using(whole.fork(), ask),
      out = [{ name: 'full', answer: full.text, hit: full.text.includes(value) }];
    for (const { name, policy } of ways)
      for (const budget of SHARES)
        await using(whole.fork(), async (copy) => {
          const event = await timed(() => copy.evict(policy, budget)),
            rows = copy
              .kept()
              .flat()
              .map((row) => new Set(row)),
            held = rows.filter((row) => valueTokens.every((p) => row.has(p))).length / rows.length,
            slots = rows.reduce((sum, row) => sum + row.size, 0) / rows.length,
            { text } = await ask(copy);
          out.push({
            name,
            budget,
            slots: Number(slots.toFixed(1)),
            held: Number(held.toFixed(3)),
            event,
            answer: text,
            hit: text.includes(value),
          });
        });
    return { form, i, stage, tokens: TOKENS, value, prefill, ways: out };
  });
}

async function work() {
  const model = await loadModel(options.model, { runtime: cpuRuntime({ exact: false, threads: 1 }) }),
    sentences = sentencesOf(await heldOutBook());
  process.on('message', async (job) => process.send(await runPrompt(model, sentences, job)));
  process.send({ engine: model.engine });
}

async function lead() {
  const lines = existsSync(results)
      ? readFileSync(results, 'utf8')
          .split('\n')
          .filter((line) => line.endsWith('}'))
          .map((line) => JSON.parse(line))
      : [],
    done = new Set(lines.map(({ form, i, stage }) => `${form}/${i}/${stage}`)),
    jobs = options.stages
      .split(',')
      .map((stage) => STAGES[Number(stage)])
      .flatMap(({ stage, from, to }) =>
        Array.from({ length: Math.max(0, Math.min(to, Number(options.prompts)) - from) }, (_, k) =>
          FORMS.map((form) => ({ form, i: from + k, stage })),
        ).flat(),
      )
      .filter(({ form, i, stage }) => !done.has(`${form}/${i}/${stage}`));
  const [hours, minutes] = options.until.split(':').map(Number),
    end = new Date().setUTCHours(hours, minutes, 0, 0);
  await Promise.all(
    Array.from(
      { length: Math.min(Number(options.workers), jobs.length) },
      () =>
        new Promise((ended, failed) => {
          const worker = fork(fileURLToPath(import.meta.url), process.argv.slice(2), {
            env: { ...process.env, KV_STUDY_WORKER: '1' },
          });
          const next = () => {
            const job = Date.now() < end ? jobs.shift() : undefined;
            if (job) worker.send(job);
            else worker.kill();
          };
          worker.on('message', (result) => {
            if (!result.engine) {
              appendFileSync(results, `${JSON.stringify(result)}\n`);
              console.log(new Date().toISOString().slice(11, 19), result.form, result.i, result.stage);
            }
            next();
          });
          worker.on('exit', (code, signal) =>
            code && !signal ? failed(new Error(`a worker ended with code ${code}`)) : ended(),
          );
        }),
    ),
  );
}

await (process.env.KV_STUDY_WORKER ? work() : lead());
