// npm run -s study -- refit RESULTS.jsonl --model MODEL.gguf [--set confirm] [--prompts 200] [--workers 2] [--until 23:59] [--only full]
// What plan.md plans: one prefill of a document, an event of each cell on a copy of it, and all questions after it.
// Goes on where RESULTS.jsonl ends; a line is one document with all its cells. `--only full` asks the full cache alone.
import { basename } from 'node:path';
import { fileURLToPath } from 'node:url';
import { KvError } from '@kv/core';
import { cpuRuntime, loadModel, Sequence } from '@kv/models';
import { commandLine } from '../../bench/lib/command-line.mjs';
import { byWorkers, linesOf, using } from '../lib/prompts-by-workers.mjs';
import { gives, likely, loss, read, round } from '../lib/reading.mjs';
import { mean } from '../lib/tables.mjs';
import { cellsFor, hasAll } from './cells.mjs';
import { book, promptOf } from './prompts.mjs';

const { path: results, ...options } = commandLine(
  { model: undefined, set: 'confirm', prompts: 200, workers: 2, until: '23:59', only: '' },
  'the file of results',
);

/** Runs a policy on a few tokens, to see whether this build and this model can. */
const tryOn = (model, ids) => (policy) =>
  using(new Sequence(model), async (sequence) => {
    await sequence.prefill(ids, { policies: [policy] });
    await sequence.evict(policy, '50%');
  });

/** Asks a cache every question, and reads the prose that follows. */
async function asked(sequence, { facts, after }, reference, remembers = false) {
  const rows = sequence.kept().flat(),
    sets = rows.map((row) => new Set(row)),
    { cache, ledger } = sequence.memory,
    bytes = cache.liveBytes + (remembers ? ledger.entry('states').live : 0),
    answers = {},
    held = {};
  for (const fact of facts) {
    answers[fact.kind] = await using(sequence.fork(), (copy) => gives(copy, fact));
    held[fact.kind] = round(mean(sets.map((set) => fact.positions.every((p) => set.has(p)))));
  }
  const { kl, nll, top } = await using(sequence.fork(), (copy) => loss(copy, after, reference));
  return {
    ...{ answers, held, slots: round(mean(rows.map(({ length }) => length))), bytes },
    ...{ kl: round(kl), nll: round(nll), top: round(top) },
  };
}

async function runPrompt({ model, sentences, known }, { i }) {
  const prompt = promptOf(model.tokenizer.encode, sentences, options.set, i),
    todo = known.filter(({ always }) => always || hasAll(i)),
    out = [],
    bytes = new Map(),
    [started, before] = [performance.now(), process.cpuUsage()];
  await using(new Sequence(model), async (document) => {
    await document.prefill(prompt.document, { policies: [...new Set(todo.map(({ policy }) => policy))] });
    const reference = await using(document.fork(), async (copy) =>
      likely(await read(copy, prompt.after, prompt.after.length)),
    );
    const add = (name, cell) => {
      bytes.set(name, cell.bytes);
      out.push({ name, ...cell });
    };
    add('full', await asked(document, prompt, reference));
    for (const { name, policy, share, bytesOf, remembers } of todo)
      await using(document.fork(), async (copy) => {
        const began = process.cpuUsage();
        try {
          await copy.evict(policy, share === undefined ? { bytes: bytes.get(bytesOf) } : `${share}%`);
        } catch (cause) {
          if (!(cause instanceof KvError)) throw cause;
          out.push({ name, refused: cause.message });
          return;
        }
        const ms = Math.round(process.cpuUsage(began).user / 1000);
        add(name, { ...(await asked(copy, prompt, reference, remembers)), ms });
      });
  });
  return {
    ...{ i, set: options.set, model: basename(model.name), tokens: prompt.document.length },
    values: prompt.facts.map(({ value }) => value),
    seconds: round((performance.now() - started) / 1000),
    cpu: round(process.cpuUsage(before).user / 1e6),
    cells: out,
  };
}

await byWorkers(fileURLToPath(import.meta.url), {
  jobs() {
    const done = new Set(linesOf(results).map(({ i }) => i));
    return Array.from({ length: options.prompts }, (_, i) => ({ i })).filter(({ i }) => !done.has(i));
  },
  async answer() {
    const model = await loadModel(options.model, { runtime: cpuRuntime({ exact: false, threads: 1 }) }),
      { sentences } = await book(),
      few = model.tokenizer.encode(sentences.join(' ')).ids.slice(0, 96),
      { known, left } = options.only === 'full' ? { known: [], left: new Map() } : await cellsFor(tryOn(model, few));
    for (const [policy, why] of left) console.log(`left out: ${policy}: ${why}`);
    return { engine: model.engine, run: (job) => runPrompt({ model, sentences, known }, job) };
  },
  results,
  workers: options.workers,
  until: options.until,
  told: ({ i, seconds, cpu, cells: { length } }) => [i, `${length} cells, ${seconds} s, ${cpu} s of a core`],
});
