// node studies/smollm2-needle/run.mjs RESULTS.jsonl [--set confirm2] [--workers 2] [--until 16:50] [--stages 0,1,2]
// [--limit N] [--part 0/1]
// One prefill a prompt in exact f32; every policy evicts a fork of it. Goes on where RESULTS.jsonl ends.
import { fork } from 'node:child_process';
import { appendFileSync, existsSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { parseArgs } from 'node:util';
import { depthOf, questionOf, seedOf, STAGES, TOKENS } from './ways.mjs';

// Built packages and ONNX Runtime, as the benches have them.
const BENCH = new URL('../../bench/package.json', import.meta.url),
  { resolve } = createRequire(BENCH),
  built = (name) => import(pathToFileURL(resolve(name)).href);
const { decode, exactRuntime, loadModel, Sequence } = await built('@kv/models'),
  { parsePolicy } = await built('@kv/policies'),
  { heldOutBook, needle, sentencesOf } = await built('@kv/tasks');

const {
  values: options,
  positionals: [results],
} = parseArgs({
  allowPositionals: true,
  options: {
    set: { type: 'string', default: 'confirm2' },
    workers: { type: 'string', default: '2' },
    until: { type: 'string' },
    stages: { type: 'string', default: '0,1,2' },
    limit: { type: 'string', default: '1000' },
    part: { type: 'string', default: '0/1' },
  },
});
const MODEL =
  process.env.KV_SMOLLM2 ?? fileURLToPath(new URL('../../.kv/models/SmolLM2-135M-Instruct.Q4_1.gguf', import.meta.url));
const STOP = ['.', '\n'],
  ANSWER = 28;

const argmax = (row) => row.reduce((best, x, i) => (x > row[best] ? i : best), 0);

/** The greedy answer of a fork of the prompt, and its tokens. */
async function greedy(sequence) {
  const tokens = [];
  let text = '';
  for await (const chunk of decode(sequence, { maxNewTokens: ANSWER, stop: STOP })) {
    text += chunk.text;
    if (chunk.token !== undefined) tokens.push(chunk.token);
  }
  return { text, tokens };
}

/**
 * Whether the greedy answer begins with these tokens: they are fed as one block, each must be the argmax of the row
 * before it.
 */
async function says(sequence, tokens) {
  const [first] = sequence.logits.slice(-1);
  sequence.settle();
  await sequence.append(tokens, { rows: tokens.length });
  return [first, ...sequence.logits.slice(0, -1)].every((row, i) => argmax(row) === tokens[i]);
}

/** A fork of the prompt, evicted. */
async function evicted(whole, { policy, budget }) {
  const copy = whole.fork();
  if (policy) await copy.evict(policy, budget);
  return copy;
}

async function using(sequence, work) {
  try {
    return await work(sequence);
  } finally {
    sequence.destroy();
  }
}

/** A needle prompt of TOKENS tokens whose question is ours: it asks, and begins the answer. */
function promptOf(encode, sentences, form, i) {
  const given = (tokens) =>
    needle({ encode, sentences, tokens, depth: depthOf(i), seed: seedOf(options.set, form, i), form });
  const { key, questionIds: cue } = given(TOKENS),
    question = questionOf(form, key),
    questionIds = encode(question, { special: false }).ids;
  return { ...given(TOKENS - questionIds.length + cue.length), question, questionIds };
}

async function runPrompt(model, sentences, { form, i, claims, ablations }) {
  const prompt = promptOf(model.tokenizer.encode, sentences, form, i);
  const ways = [...claims, ...ablations.map((way) => ({ ...way, ablation: true }))].map((way) => ({
      ...way,
      text: way.policy,
      policy: parsePolicy(way.policy),
    })),
    whole = new Sequence(model);
  return using(whole, async () => {
    await whole.prefill([...prompt.documentIds, ...prompt.questionIds], { policies: ways.map(({ policy }) => policy) });
    const full = await using(whole.fork(), greedy),
      right = full.text.includes(prompt.value),
      out = [{ name: 'full cache', kept: 1, same: true, answer: full.text, hit: right }];
    for (const way of ways) {
      const { kept, same } = await using(await evicted(whole, way), async (copy) => {
        const rows = copy
            .kept()
            .flat()
            .map((row) => new Set(row)),
          held = rows.filter((row) => prompt.valueTokens.every((p) => row.has(p))).length;
        return { kept: Number((held / rows.length).toFixed(3)), same: right && (await says(copy, full.tokens)) };
      });
      // Where the full cache is right and its answer is the policy's too, steps say nothing new; the first prompts
      // check that.
      const answer =
        !same || (!way.ablation && i % 20 === 0) ? (await using(await evicted(whole, way), greedy)).text : undefined;
      out.push({
        name: way.name,
        policy: way.text,
        budget: way.budget,
        kept,
        same,
        answer,
        hit: (answer ?? full.text).includes(prompt.value),
      });
    }
    return { form, i, value: prompt.value, ways: out };
  });
}

async function work() {
  const model = await loadModel(MODEL, {
      runtime: await exactRuntime({ threads: 1, from: fileURLToPath(new URL('.', BENCH)) }),
    }),
    sentences = sentencesOf(await heldOutBook());
  process.on('message', async (job) => process.send(await runPrompt(model, sentences, job)));
  process.send({ engine: model.engine });
}

async function lead() {
  const [part, parts] = options.part.split('/').map(Number);
  const lines = existsSync(results)
      ? readFileSync(results, 'utf8')
          .split('\n')
          .filter(Boolean)
          .map((line) => JSON.parse(line))
      : [],
    done = new Set(lines.map(({ form, i }) => `${form}/${i}`));
  const jobs = options.stages
    .split(',')
    .flatMap((s) => {
      const { from, to, ...stage } = STAGES[Number(s)];
      return Array.from({ length: Math.min(to - from, Number(options.limit)) }, (_, k) => ({ ...stage, i: from + k }));
    })
    .filter(({ form, i }) => !done.has(`${form}/${i}`) && i % parts === part);
  const [hours, minutes] = (options.until ?? '23:59').split(':').map(Number),
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
              console.log(new Date().toISOString().slice(11, 19), result.form, result.i);
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
