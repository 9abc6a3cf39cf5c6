// npm run -s study -- hard-half RESULTS.jsonl --model MODEL.gguf [--set confirm] [--tokens 1024] [--prompts 200]
// [--stages 0,1,2,3,4] [--workers 2] [--until 07:20]: `--set confirm2 --stages 5` asks what plan-2.md plans.
// One prefill of the document a prompt; every policy evicts a fork of it at every budget, and is asked afterwards.
// Goes on where RESULTS.jsonl ends.
import { fileURLToPath } from 'node:url';
import { Sequence } from '@kv/models';
import { parsePolicy } from '@kv/policies';
import { commandLine } from '../../bench/lib/command-line.mjs';
import { byWorkers, linesOf, using } from '../lib/prompts-by-workers.mjs';
import { answering, answerTo, promptOf } from './prompts.mjs';
import { FORMS, SHARES, STAGES } from './ways.mjs';

const {
  path: results,
  tokens: TOKENS,
  ...options
} = commandLine(
  {
    model: undefined,
    set: 'confirm',
    tokens: 1024,
    prompts: 200,
    stages: [0, 1, 2, 3, 4],
    workers: 2,
    until: '23:59',
  },
  'the file of results',
);

/** Results of a signal's second pass by layer, shared by all budgets of a prompt. */
const known = new Map();
const once = (key, make) => {
  if (!known.has(key)) known.set(key, make());
  return known.get(key);
};
/**
 * Returns a policy that runs its second pass once per prompt instead of once per budget; its kept sets are the same.
 */
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
      ask = (sequence) => answerTo(sequence, questionIds);
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

/** Returns every prompt of the stages that is not in the results yet. */
function jobs() {
  const done = new Set(linesOf(results).map(({ form, i, stage }) => `${form}/${i}/${stage}`));
  return options.stages
    .map((stage) => STAGES[stage])
    .flatMap(({ stage, from, to }) =>
      Array.from({ length: Math.max(0, Math.min(to, options.prompts) - from) }, (_, k) =>
        FORMS.map((form) => ({ form, i: from + k, stage })),
      ).flat(),
    )
    .filter(({ form, i, stage }) => !done.has(`${form}/${i}/${stage}`));
}

await byWorkers(fileURLToPath(import.meta.url), {
  jobs,
  answer: answering(options.model, runPrompt),
  results,
  workers: options.workers,
  until: options.until,
  told: ({ form, i, stage }) => [form, i, stage],
});
