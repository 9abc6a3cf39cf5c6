// npm run -s study -- agents RESULTS.jsonl --model MODEL.gguf [--set confirm] [--traces 200] [--workers 2] [--until 06:10]
// What plan.md plans: every trace under the full cache and under each policy and budget, turn by turn over one cache.
// Goes on where RESULTS.jsonl ends; a line is one trace with all its cells.
import { fileURLToPath } from 'node:url';
import { cpuRuntime, decode, loadModel, Sequence } from '@kv/models';
import { parsePolicy } from '@kv/policies';
import { AGENT_CALL, agentTrace, saysFact } from '@kv/tasks';
import { commandLine } from '../../bench/lib/command-line.mjs';
import { byWorkers, linesOf, using } from '../lib/prompts-by-workers.mjs';
import { argMax } from '../lib/reading.mjs';
import { mean } from '../lib/tables.mjs';
import { ANSWER, BLOCK, CALL, POLICIES, positionsOf, probesOf, SHARES, traceOf, turnsOf } from './cells.mjs';

const { path: results, ...options } = commandLine(
  { model: undefined, set: 'confirm', traces: 200, workers: 2, until: '23:59' },
  'the file of results',
);

/** Returns the greedy text up to a line break, and its tokens. */
async function greedy(sequence, maxNewTokens) {
  const tokens = [];
  let text = '';
  for await (const chunk of decode(sequence, { maxNewTokens, stop: ['\n'] })) {
    text += chunk.text;
    if (chunk.token !== undefined) tokens.push(chunk.token);
  }
  return { text, tokens };
}
/** What is asked of a trace: at which turn's beginning, in which ids. */
function askedOf(encode, trace) {
  const plain = (text) => encode(text, { special: false }).ids,
    places = positionsOf(encode, trace);
  return {
    probes: probesOf(trace).map((turn) => ({ turn, ids: plain(trace.turns[turn].user + AGENT_CALL) })),
    facts: trace.facts.map((fact, f) => ({ ...fact, ids: plain(fact.question), positions: places[f] })),
  };
}

/** The full cache's greedy call: its tokens, and how many of them hold the name and its closing quote. */
async function callOf(model, sequence, ids) {
  return using(sequence.fork(), async (copy) => {
    await copy.append(ids);
    const { text, tokens } = await greedy(copy, CALL);
    let name = 0;
    while (name < tokens.length && !model.tokenizer.decode(tokens.slice(0, name)).includes('"')) name++;
    return { text, tokens, name };
  });
}
/** Whether greedy decoding would begin with the name of a call, and with all of it: each token must be the argmax. */
async function agrees(sequence, ids, { tokens, name }) {
  return using(sequence.fork(), async (copy) => {
    const fed = [...ids, ...tokens.slice(0, -1)];
    await copy.append(fed, { rows: tokens.length });
    const rows = await copy.logits(),
      from = rows.length - tokens.length,
      same = tokens.map((id, at) => argMax(rows[from + at]) === id);
    return { name: same.slice(0, name).every(Boolean), arguments: same.slice(name).every(Boolean) };
  });
}

/** Reads a trace under one policy and budget, and asks. Bytes and times are of reading alone, not of what is asked. */
async function cell(model, { parts, asked, calls }, { policy, slots }) {
  const parsed = policy && parsePolicy(policy),
    bytes = [],
    ms = [],
    found = [];
  return using(new Sequence(model), async (sequence) => {
    for (const [t, ids] of parts.entries()) {
      const k = asked.probes.findIndex(({ turn }) => turn === t);
      if (k >= 0)
        if (policy) found.push(await agrees(sequence, asked.probes[k].ids, calls[k]));
        else calls.push(await callOf(model, sequence, asked.probes[k].ids));
      const started = performance.now();
      await sequence.prefill(ids, policy ? { policy: parsed, budget: slots, block: BLOCK } : {});
      ms.push(performance.now() - started);
      bytes.push(sequence.memory.cache.liveBytes);
    }
    const answers = [],
      rows = sequence
        .kept()
        .flat()
        .map((row) => new Set(row));
    for (const fact of asked.facts)
      await using(sequence.fork(), async (copy) => {
        await copy.append(fact.ids);
        const { text } = await greedy(copy, ANSWER);
        const held = rows.filter((row) => fact.positions.every((p) => row.has(p))).length / rows.length;
        answers.push({ ...{ kind: fact.kind, wording: fact.wording, text }, right: saysFact(fact, text), held });
      });
    return {
      answers,
      ...(policy && { calls: found }),
      bytes: { most: Math.max(...bytes), last: bytes.at(-1) },
      ms: { mean: Math.round(mean(ms) * 10) / 10, last: Math.round(mean(ms.slice(-10)) * 10) / 10 },
    };
  });
}

async function runTrace(model, { i }) {
  const started = performance.now(),
    of = traceOf(options.set, i),
    trace = agentTrace(of),
    { encode } = model.tokenizer,
    parts = turnsOf(encode, trace),
    tokens = parts.flat().length,
    run = { parts, asked: askedOf(encode, trace), calls: [] },
    cells = [{ name: 'no policy', slots: tokens, ...(await cell(model, run, {})) }];
  for (const share of SHARES)
    for (const { name, policy } of POLICIES) {
      const slots = Math.round(share * tokens);
      cells.push({ name, share, slots, ...(await cell(model, run, { policy, slots })) });
    }
  return {
    ...{ i, domain: of.domain, turns: of.turns, tokens },
    values: trace.facts.map(({ value }) => value),
    calls: run.calls.map(({ text }) => text),
    cells,
    seconds: Math.round((performance.now() - started) / 1000),
  };
}

await byWorkers(fileURLToPath(import.meta.url), {
  jobs() {
    const done = new Set(linesOf(results).map(({ i }) => i));
    return Array.from({ length: options.traces }, (_, i) => ({ i })).filter(({ i }) => !done.has(i));
  },
  async answer() {
    const model = await loadModel(options.model, { runtime: cpuRuntime({ exact: false, threads: 1 }) });
    return { engine: model.engine, run: (job) => runTrace(model, job) };
  },
  results,
  workers: options.workers,
  until: options.until,
  told: ({ i, domain, turns, tokens, seconds }) => [i, domain, turns, tokens, seconds],
});
