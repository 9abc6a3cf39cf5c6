// npm run -s study -- smollm2-needle RESULTS.jsonl [--set confirm2] [--workers 2] [--until 16:50] [--stages 0,1,2]
// [--limit N] [--part 0/1]
// One prefill a prompt in exact f32; every policy evicts a fork of it. Goes on where RESULTS.jsonl ends.
import { fileURLToPath } from 'node:url';
import { decode, loadModel, onnxRuntime, Sequence, freeObservations } from '@kv/models';
import { parsePolicy } from '@kv/policies';
import { heldOutBook, needle, sentencesOf } from '@kv/tasks';
import { commandLine } from '../../bench/lib/command-line.mjs';
import { byWorkers, greedy, linesOf, using } from '../lib/prompts-by-workers.mjs';
import { depthOf, questionOf, seedOf, STAGES, TOKENS } from './ways.mjs';

const { path: results, ...options } = commandLine(
  { set: 'confirm2', workers: 2, until: '23:59', stages: [0, 1, 2], limit: 1000, part: '0/1' },
  'the file of results',
);
const MODEL =
  process.env.KV_SMOLLM2 ?? fileURLToPath(new URL('../../.kv/models/SmolLM2-135M-Instruct.Q4_1.gguf', import.meta.url));

const argmax = (row) => row.reduce((best, x, i) => (x > row[best] ? i : best), 0);

/**
 * Whether the greedy answer begins with these tokens: they are fed as one block, and each must be the argmax of the row
 * before it.
 */
async function says(sequence, tokens) {
  const [first] = (await sequence.logits()).slice(-1);
  freeObservations(sequence);
  await sequence.append(tokens, { rows: tokens.length });
  return [first, ...(await sequence.logits()).slice(0, -1)].every((row, i) => argmax(row) === tokens[i]);
}

/** Returns a fork of the prompt after an eviction. */
async function evicted(whole, { policy, budget }) {
  const copy = whole.fork();
  if (policy) await copy.evict(policy, budget);
  return copy;
}

/** Returns a needle prompt of TOKENS tokens with our own question, which also begins the answer. */
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
    const full = await using(whole.fork(), (copy) => greedy(decode, copy)),
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
      // If the full cache is right and the policy begins with the same answer, decoding adds nothing; the first prompts
      // check that.
      const answer =
        !same || (!way.ablation && i % 20 === 0)
          ? (await using(await evicted(whole, way), (copy) => greedy(decode, copy))).text
          : undefined;
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

async function answer() {
  const model = await loadModel(MODEL, {
      runtime: await onnxRuntime({ threads: 1, from: fileURLToPath(new URL('..', import.meta.url)) }),
    }),
    sentences = sentencesOf(await heldOutBook());
  return { engine: model.engine, run: (job) => runPrompt(model, sentences, job) };
}

/** Returns every prompt of the stages and the part that is not in the results yet. */
function jobs() {
  const [part, parts] = options.part.split('/').map(Number);
  const done = new Set(linesOf(results).map(({ form, i }) => `${form}/${i}`));
  return options.stages
    .flatMap((s) => {
      const { from, to, ...stage } = STAGES[s];
      return Array.from({ length: Math.min(to - from, options.limit) }, (_, k) => ({ ...stage, i: from + k }));
    })
    .filter(({ form, i }) => !done.has(`${form}/${i}`) && i % parts === part);
}

await byWorkers(fileURLToPath(import.meta.url), {
  jobs,
  answer,
  results,
  workers: options.workers,
  until: options.until,
  told: ({ form, i }) => [form, i],
});
