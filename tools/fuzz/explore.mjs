/**
 * The part of the fuzzer that runs inputs, in a thread that its parent may end. An input that reaches new code, or
 * reaches code more often (by powers of two, as in AFL and libFuzzer), is kept.
 */
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { parentPort, workerData } from 'node:worker_threads';
import { chance, mutate } from './mutate.mjs';
import { tracer } from './tracer.mjs';

const { script, places, target: name, corpus, findings, minutes, seed, most, shared } = workerData;
/**
 * The input being run, for the parent that may end the thread: its length, the number of runs so far, and its bytes.
 */
const [head, trying] = [new Int32Array(shared, 0, 2), new Uint8Array(shared, 8)];

const counters = new Uint8Array(places);
const before = new Uint8Array(places);
const seen = [];
const compared = (wanted) => {
  if (typeof wanted === 'string' && wanted.length > 0 && wanted.length < 64 && !seen.includes(wanted)) {
    seen.push(wanted);
    if (seen.length > 256) seen.shift();
  } else if (typeof wanted === 'number' && Number.isFinite(wanted) && !seen.includes(wanted)) seen.push(wanted);
};
globalThis.Fuzzer = tracer((place) => {
  if (counters[place] < 255) counters[place]++;
}, compared);
const { targets, verdictOf } = await import(pathToFileURL(script));
const target = targets[name];

/** Tells whether the last run reached anything new. */
function isNew() {
  let fresh = false;
  for (let place = 0; place < places; place++) {
    const count = counters[place];
    if (count === 0) continue;
    const bucket = 1 << Math.min(7, 31 - Math.clz32(count));
    if ((before[place] & bucket) === 0) {
      before[place] |= bucket;
      fresh = true;
    }
  }
  return fresh;
}

const digest = (bytes) => createHash('sha1').update(bytes).digest('hex').slice(0, 16);
const keep = (folder, bytes) => {
  mkdirSync(folder, { recursive: true });
  const path = join(folder, digest(bytes));
  if (!existsSync(path)) writeFileSync(path, bytes);
};

const known = new Set();
let [runs, faults, taken] = [0, 0, 0];
async function run(bytes) {
  trying.set(bytes.subarray(0, trying.length));
  head[0] = bytes.length;
  Atomics.add(head, 1, 1);
  counters.fill(0);
  runs++;
  const start = process.cpuUsage();
  let trouble;
  try {
    if ((await verdictOf(target, bytes)).taken) taken++;
  } catch (error) {
    trouble = `${error?.stack ?? error}`;
  }
  const { user, system } = process.cpuUsage(start);
  if (trouble === undefined && user + system > 5e6) trouble = `slow: ${(user + system) / 1e6} s of CPU`;
  if (trouble === undefined) return;
  // Faults are compared by where they were thrown, since their messages quote the input.
  const place = `${trouble.slice(0, 40)} ${/\n\s+at (?!verdictOf).*/.exec(trouble)?.[0] ?? ''}`.replace(/\d+/g, '');
  if (known.has(place)) return;
  known.add(place);
  faults++;
  keep(findings, bytes);
  parentPort.postMessage({ finding: digest(bytes), trouble: trouble.slice(0, 1500) });
}

const rnd = chance(seed);
const inputs = [];
const stored = existsSync(corpus)
  ? readdirSync(corpus).map((file) => new Uint8Array(readFileSync(join(corpus, file))))
  : [];
// Smallest first, so that larger ones that add nothing are not mutated.
for (const bytes of [...target.seeds(), ...stored].sort((a, b) => a.length - b.length)) {
  await run(bytes);
  if (isNew() || inputs.length === 0) {
    inputs.push(bytes);
    keep(corpus, bytes);
  }
}
const began = inputs.length;
parentPort.postMessage({ began });
for (const end = performance.now() + 60_000 * minutes; performance.now() < end; ) {
  // New ones are more likely to lead further.
  const from = inputs[Math.max(rnd.below(inputs.length), rnd.below(inputs.length))];
  const bytes = mutate(from, { rnd, words: target.words, seen, others: inputs, most });
  await run(bytes);
  if (isNew()) {
    inputs.push(bytes);
    keep(corpus, bytes);
  }
  // Let messages and the end signal arrive.
  if (runs % 256 === 0) await new Promise(setImmediate);
}
const reached = before.reduce((sum, place) => sum + (place === 0 ? 0 : 1), 0);
parentPort.postMessage({ done: { runs, taken, faults, kept: inputs.length - began, corpus: inputs.length, reached } });
