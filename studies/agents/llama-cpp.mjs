// npm run -s study -- agents/llama-cpp LLAMA.jsonl --model MODEL.gguf [--set confirm] [--traces 200] [--until 06:10]
// llama.cpp's own answer to a full context on the same traces: node-llama-cpp with a context of as many slots as each
// budget, which shifts (its default strategy), and the turn at which one that does not shift would stop, beside a context
// that holds everything. Goes on where the file ends.
import { appendFileSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { cpuRuntime, loadModel } from '@kv/models';
import { AGENT_CALL, agentTrace, saysFact } from '@kv/tasks';
import { commandLine } from '../../bench/lib/command-line.mjs';
import { peerFolder } from '../../bench/peers/processes.mjs';
import { linesOf } from '../lib/prompts-by-workers.mjs';
import { ANSWER, CALL, probesOf, SHARES, traceOf, turnsOf } from './cells.mjs';

const { path: results, ...options } = commandLine(
  { model: undefined, set: 'confirm', traces: 200, until: '23:59', peer: undefined },
  'the file of results',
);
const { getLlama } = await import(
  pathToFileURL(join(peerFolder(options), 'node_modules/node-llama-cpp/dist/index.js'))
);
const llama = await getLlama({ gpu: false, build: 'never', logLevel: 'error' }),
  peer = await llama.loadModel({ modelPath: options.model }),
  { tokenizer } = await loadModel(options.model, { runtime: cpuRuntime({ threads: 1 }) }),
  plain = (text) => tokenizer.encode(text, { special: false }).ids,
  scratch = mkdtempSync(join(tmpdir(), 'kv-agents-')),
  state = join(scratch, 'state');

/** Returns the greedy text after these ids, up to a line break; the sequence is then as before. */
async function said(sequence, ids, most) {
  await sequence.saveStateToFile(state);
  const tokens = [];
  try {
    for await (const id of sequence.evaluate(ids, { temperature: 0, yieldEogToken: true }))
      if (peer.isEogToken(id) || tokens.push(id) >= most || tokenizer.decode(tokens).includes('\n')) break;
  } finally {
    await sequence.loadStateFromFile(state, { acceptRisk: true });
  }
  return tokenizer.decode(tokens).split('\n')[0];
}

/** Returns the number of turns that fit a context of this many slots, where one that does not shift stops. */
function readWithin(parts, slots) {
  let tokens = 0;
  return parts.findIndex(({ length }) => (tokens += length) > slots);
}

/** Reads a trace in a context of this many slots, and asks. */
async function cell(trace, parts, slots) {
  const context = await peer.createContext({ contextSize: slots, batchSize: 512, threads: 1 }),
    sequence = context.getSequence(),
    probes = probesOf(trace),
    calls = [],
    ms = [];
  try {
    for (const [t, ids] of parts.entries()) {
      if (probes.includes(t)) calls.push(await said(sequence, plain(trace.turns[t].user + AGENT_CALL), CALL));
      const started = performance.now();
      await sequence.evaluateWithoutGeneratingNewTokens(ids);
      ms.push(performance.now() - started);
    }
    const answers = [];
    for (const fact of trace.facts) {
      const text = await said(sequence, plain(fact.question), ANSWER);
      answers.push({ kind: fact.kind, wording: fact.wording, text, right: saysFact(fact, text) });
    }
    return { slots, answers, calls, ms: Math.round((10 * ms.reduce((sum, x) => sum + x, 0)) / ms.length) / 10 };
  } finally {
    await context.dispose();
  }
}

const [hours, minutes] = options.until.split(':').map(Number),
  end = new Date().setUTCHours(hours, minutes, 0, 0),
  done = new Set(linesOf(results).map(({ i }) => i));
for (let i = 0; i < options.traces && Date.now() < end; i++) {
  if (done.has(i)) continue;
  const of = traceOf(options.set, i),
    trace = agentTrace(of),
    parts = turnsOf(tokenizer.encode, trace),
    tokens = parts.flat().length,
    cells = [{ name: 'whole context', ...(await cell(trace, parts, tokens + 64)) }];
  for (const share of SHARES) {
    const slots = Math.round(share * tokens);
    cells.push({ name: 'shift', share, stops: readWithin(parts, slots), ...(await cell(trace, parts, slots)) });
  }
  appendFileSync(results, `${JSON.stringify({ i, domain: of.domain, turns: of.turns, tokens, cells })}\n`);
  console.log(new Date().toISOString().slice(11, 19), i, of.domain, of.turns, tokens);
}
rmSync(scratch, { recursive: true });
process.exit(0);
