// node studies/smollm2-needle/run.mjs RESULTS.jsonl [--set confirm] [--workers 2] [--until 16:50] [--stages 0,1,2] [--limit N]
// One prefill a prompt in exact f32; every policy evicts a fork of it. Goes on where RESULTS.jsonl ends.
import { fork } from 'node:child_process';
import { appendFileSync, existsSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { parseArgs } from 'node:util';
import { depthOf, seedOf, STAGES, TOKENS } from './ways.mjs';

// Built packages and ONNX Runtime, as the benches have them.
const BENCH = new URL('../../bench/package.json', import.meta.url), { resolve } = createRequire(BENCH), built = (name) => import(pathToFileURL(resolve(name)).href);
const { decode, loadModel, pickEngine, Sequence } = await built('@kv/models'), { parsePolicy } = await built('@kv/policies'), { heldOutBook, needle, sentencesOf } = await built('@kv/tasks');

const { values: options, positionals: [results] } = parseArgs({ allowPositionals: true, options: {
  set: { type: 'string', default: 'confirm' }, workers: { type: 'string', default: '2' }, until: { type: 'string' }, stages: { type: 'string', default: '0,1,2' }, limit: { type: 'string', default: '1000' },
} });
const MODEL = process.env.KV_SMOLLM2 ?? fileURLToPath(new URL('../../.kv/models/SmolLM2-135M-Instruct.Q4_1.gguf', import.meta.url));
const STOP = ['.', '\n'], ANSWER = 16;

const argmax = (row) => row.reduce((best, x, i) => (x > row[best] ? i : best), 0);

/** The greedy answer of a fork of the prompt under a policy. */
async function greedy(sequence) {
  let text = '';
  for await (const chunk of decode(sequence, { maxNewTokens: ANSWER, stop: STOP })) text += chunk.text;
  return text;
}

/** Whether the greedy answer begins with the value: its tokens are fed as one block, each must be the argmax of the row before it. */
async function saysValue(sequence, value) {
  const [first] = sequence.logits.slice(-1);
  sequence.settle();
  await sequence.append(value, { rows: value.length });
  return [first, ...sequence.logits.slice(0, -1)].every((row, i) => argmax(row) === value[i]);
}

/** A fork of the prompt, evicted. */
async function evicted(whole, { policy, budget }) {
  const copy = whole.fork();
  if (policy) await copy.evict(policy, budget);
  return copy;
}

async function using(sequence, work) {
  try { return await work(sequence); } finally { sequence.destroy(); }
}

async function runPrompt(model, sentences, { form, i, claims, ablations }) {
  const prompt = needle({ encode: model.tokenizer.encode, sentences, tokens: TOKENS, depth: depthOf(i), seed: seedOf(options.set, form, i), form });
  const ways = [{ name: 'full cache' }, ...claims, ...ablations.map((way) => ({ ...way, ablation: true }))].map((way) => ({ ...way, text: way.policy, policy: way.policy && parsePolicy(way.policy) }));
  const value = model.tokenizer.encode(` ${prompt.value}`, { special: false }).ids, whole = new Sequence(model), out = [];
  return using(whole, async () => {
    await whole.prefill([...prompt.documentIds, ...prompt.questionIds], { policies: ways.flatMap(({ policy }) => policy ?? []) });
    for (const way of ways) {
      const outcome = await using(await evicted(whole, way), async (copy) => {
        const rows = copy.kept().flat().map((row) => new Set(row)), kept = rows.filter((row) => prompt.valueTokens.every((p) => row.has(p))).length / rows.length;
        return { kept: Number(kept.toFixed(3)), begins: await saysValue(copy, value) };
      });
      // Only a miss can hide another wording of the value; the first prompts check that block and steps agree.
      const answer = !way.ablation && (!outcome.begins || i % 20 === 0) ? await using(await evicted(whole, way), greedy) : undefined;
      out.push({ name: way.name, policy: way.text, budget: way.budget, ...outcome, answer, hit: outcome.begins || (answer?.includes(prompt.value) ?? false) });
    }
    return { form, i, value: prompt.value, ways: out };
  });
}

async function work() {
  const model = await loadModel(MODEL, { engine: await pickEngine({ exact: true, threads: 1, from: fileURLToPath(new URL('.', BENCH)) }) }), sentences = sentencesOf(await heldOutBook());
  process.on('message', async (job) => process.send(await runPrompt(model, sentences, job)));
  process.send({ engine: model.decoder.engine });
}

async function lead() {
  const lines = existsSync(results) ? readFileSync(results, 'utf8').split('\n').filter(Boolean).map((line) => JSON.parse(line)) : [], done = new Set(lines.map(({ form, i }) => `${form}/${i}`));
  const jobs = options.stages.split(',').flatMap((s) => { const { from, to, ...stage } = STAGES[Number(s)]; return Array.from({ length: Math.min(to - from, Number(options.limit)) }, (_, k) => ({ ...stage, i: from + k })); })
    .filter(({ form, i }) => !done.has(`${form}/${i}`));
  const [hours, minutes] = (options.until ?? '23:59').split(':').map(Number), end = new Date().setUTCHours(hours, minutes, 0, 0);
  await Promise.all(Array.from({ length: Math.min(Number(options.workers), jobs.length) }, () => new Promise((ended, failed) => {
    const worker = fork(fileURLToPath(import.meta.url), process.argv.slice(2), { env: { ...process.env, KV_STUDY_WORKER: '1' } });
    const next = () => { const job = Date.now() < end ? jobs.shift() : undefined; if (job) worker.send(job); else worker.kill(); };
    worker.on('message', (result) => { if (!result.engine) { appendFileSync(results, `${JSON.stringify(result)}\n`); console.log(new Date().toISOString().slice(11, 19), result.form, result.i); } next(); });
    worker.on('exit', (code, signal) => (code && !signal ? failed(new Error(`a worker ended with code ${code}`)) : ended()));
  })));
}

await (process.env.KV_STUDY_WORKER ? work() : lead());
