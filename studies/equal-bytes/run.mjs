// npm run -s study -- equal-bytes RESULTS.jsonl --model MODEL.gguf [--set confirm] [--prompts 100] [--workers 2] [--until 07:20]
// What plan.md plans: one prefill of a document in each stored form, then an event for each policy, arm and budget.
// Goes on where RESULTS.jsonl ends.
import { fileURLToPath } from 'node:url';
import { cpuRuntime, loadModel, Sequence } from '@kv/models';
import { parsePolicy } from '@kv/policies';
import { heldOutBook, needle, sentencesOf } from '@kv/tasks';
import { commandLine } from '../../bench/lib/command-line.mjs';
import { byWorkers, linesOf, using } from '../lib/prompts-by-workers.mjs';
import { FORMS, questionOf } from '../lib/facts.mjs';
import { askedIds, gives, likely, loss, read, round } from '../lib/reading.mjs';
import { AFTER, ARMS, depthOf, POLICIES, seedOf, TIMES, TOKENS, WHOLE } from './arms.mjs';

const { path: results, ...options } = commandLine(
  { model: undefined, set: 'confirm', prompts: 100, workers: 2, until: '23:59' },
  'the file of results',
);

/** Returns a document, the prose after it, and the question with its value and without. */
function promptOf(encode, sentences, form, i) {
  const { documentIds, key, value, valueTokens } = needle({
      ...{ encode, sentences, form, tokens: TOKENS + AFTER + encode('', { special: false }).ids.length },
      ...{ depth: depthOf(i), seed: seedOf(options.set, form, i) },
    }),
    asked = askedIds(encode, questionOf(form, key), ` ${value}`);
  return {
    document: documentIds.slice(0, TOKENS),
    after: documentIds.slice(TOKENS, TOKENS + AFTER),
    ...asked,
    held: valueTokens.filter((p) => p < TOKENS),
    value,
  };
}

/** Asks one cache of the document: the question after the event, the prose that follows, the question before it. */
async function asked(document, questioned, prompt, reference, evict) {
  const after = await using(document.fork(), async (copy) => {
    await evict(copy);
    const { liveBytes } = copy.memory.cache,
      rows = copy.kept().flat(),
      slots = rows.reduce((sum, row) => sum + row.length, 0) / rows.length,
      sets = rows.map((row) => new Set(row)),
      held = sets.filter((set) => prompt.held.every((p) => set.has(p))).length / rows.length,
      hit = await using(copy.fork(), (one) => gives(one, prompt)),
      { kl, nll } = await loss(copy, prompt.after, reference);
    return { after: hit, held: round(held), slots: round(slots), bytes: liveBytes, kl: round(kl), nll: round(nll) };
  });
  const inside = await using(questioned.fork(), async (copy) => {
    await evict(copy);
    return gives(copy, { question: [], answer: prompt.answer });
  });
  return { inside, ...after };
}

async function runPrompt(model, sentences, { form, i }) {
  const prompt = promptOf(model.tokenizer.encode, sentences, form, i),
    out = [],
    policies = POLICIES.map((name) => parsePolicy(name)),
    started = performance.now();
  let reference;
  for (const cache of WHOLE)
    await using(new Sequence(model, undefined, { cache }), async (document) => {
      await document.prefill(prompt.document, { policies });
      await using(document.fork(), async (questioned) => {
        await questioned.append(prompt.question);
        reference ??= await using(document.fork(), async (copy) =>
          likely(await read(copy, prompt.after, prompt.after.length)),
        );
        const ask = (evict) => asked(document, questioned, prompt, reference, evict);
        out.push({ policy: 'none', arm: cache, ...(await ask(async () => {})) });
        for (const { arm, levels } of ARMS.filter((one) => one.cache === cache))
          for (const name of POLICIES)
            for (const times of TIMES) {
              const text = levels === undefined ? name : `${name} | ${levels}`;
              out.push({
                ...{ policy: name, arm, times },
                ...(await ask((copy) => copy.evict(parsePolicy(text), `${100 / times}% of f16`))),
              });
            }
      });
    });
  return { form, i, value: prompt.value, ms: Math.round(performance.now() - started), cells: out };
}

await byWorkers(fileURLToPath(import.meta.url), {
  jobs() {
    const done = new Set(linesOf(results).map(({ form, i }) => `${form}/${i}`));
    return Array.from({ length: options.prompts }, (_, i) => FORMS.map((form) => ({ form, i })))
      .flat()
      .filter(({ form, i }) => !done.has(`${form}/${i}`));
  },
  async answer() {
    const model = await loadModel(options.model, { runtime: cpuRuntime({ exact: false, threads: 1 }) }),
      sentences = sentencesOf(await heldOutBook());
    return { engine: model.engine, run: (job) => runPrompt(model, sentences, job) };
  },
  results,
  workers: options.workers,
  until: options.until,
  told: ({ form, i, ms }) => [form, i, ms],
});
