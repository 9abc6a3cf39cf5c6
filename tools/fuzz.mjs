/**
 * `node tools/fuzz.mjs [TARGET...]`: fuzzes the readers of outside bytes, guided by coverage, FUZZ_MINUTES per target
 * (default 1). Continues from the inputs in .kv/fuzz, and adds its hours to tools/fuzz/hours.json.
 *   --seed N       seed of the mutations
 *   --work FOLDER  write inputs, findings and hours here instead
 *   --minimise     keep in tools/fuzz/corpus the fewest, smallest inputs that cover everything covered so far
 *   --verdicts     print each target's verdict on each input of tools/fuzz/corpus, as JSON, for tools/fuzz/judge.py
 */
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { parseArgs } from 'node:util';
import { Worker } from 'node:worker_threads';
import { install } from './lib/install.mjs';
import { root, showUsage } from './lib/process.mjs';

showUsage(import.meta.filename);
await install('all');
const { bundle } = await import('./fuzz/bundle.mjs'),
  { corpusOf, minimised } = await import('./fuzz/corpus.mjs');

/** Maximum bytes of an input, and the seconds after which a run counts as hanging. */
const [MOST, HANGS] = [8192, 60];

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    seed: { type: 'string', default: String(Date.now() % 2 ** 31) },
    minimise: { type: 'boolean', default: false },
    verdicts: { type: 'boolean', default: false },
    work: { type: 'string' },
  },
});
const minutes = Number(process.env.FUZZ_MINUTES ?? 1);
const folder = mkdtempSync(join(tmpdir(), 'kv-fuzz-')),
  script = join(folder, 'targets.mjs'),
  work = values.work ?? join(root, '.kv/fuzz'),
  hoursFile = values.work === undefined ? join(root, 'tools/fuzz/hours.json') : join(values.work, 'hours.json');

/** Fuzzes one target for its minutes; a hang or a crash of the thread ends it with a finding. */
function explore(target, places) {
  const shared = new SharedArrayBuffer(8 + MOST);
  const head = new Int32Array(shared, 0, 2);
  const findings = join(work, 'findings', target);
  const worker = new Worker(new URL('./fuzz/explore.mjs', import.meta.url), {
    workerData: {
      script,
      places,
      target,
      corpus: join(work, target),
      findings,
      minutes,
      seed: Number(values.seed),
      most: MOST,
      shared,
    },
    resourceLimits: { maxOldGenerationSizeMb: 2048 },
  });
  return new Promise((resolve) => {
    let [tried, since, found] = [-1, performance.now(), 0];
    const saved = (why) => {
      found++;
      mkdirSync(findings, { recursive: true });
      const path = join(findings, `ended-${Date.now()}`);
      writeFileSync(path, new Uint8Array(shared, 8, Math.min(MOST, head[0])));
      console.log(`${target}: ${why}: ${path}`);
    };
    const watch = setInterval(() => {
      if (Atomics.load(head, 1) !== tried) [tried, since] = [Atomics.load(head, 1), performance.now()];
      else if (performance.now() - since > 1000 * HANGS) {
        saved(`no end after ${HANGS} s`);
        void worker.terminate();
      }
    }, 1000);
    let result;
    worker.on('message', (message) => {
      if (message.finding) console.log(`${target}: ${join(findings, message.finding)}\n${message.trouble}`);
      result = message.done ?? result;
    });
    worker.on('error', (error) => saved(error.message));
    worker.on('exit', () => {
      clearInterval(watch);
      resolve({ ...result, faults: (result?.faults ?? 0) + found });
    });
  });
}

try {
  const places = await bundle(script, { instrumented: !values.verdicts });
  if (values.verdicts) {
    const { targets, verdictOf } = await import(pathToFileURL(script));
    const all = {};
    for (const [name, target] of Object.entries(targets))
      for (const [file, bytes] of corpusOf(name)) all[`${name}/${file}`] = await verdictOf(target, bytes);
    console.log(JSON.stringify(all, undefined, 1));
  } else if (values.minimise) await minimised(script, places, work, positionals);
  else {
    // Start with the committed inputs, so that a new machine does not start from nothing.
    const { default: names } = await import('./fuzz/names.mjs');
    let faults = 0;
    for (const name of positionals.length > 0 ? positionals : names) {
      mkdirSync(join(work, name), { recursive: true });
      for (const [file, bytes] of corpusOf(name)) writeFileSync(join(work, name, file), bytes);
      const result = await explore(name, places);
      const hours = existsSync(hoursFile) ? JSON.parse(readFileSync(hoursFile, 'utf8')) : {};
      const last = hours[name] ?? { minutes: 0, runs: 0 };
      hours[name] = {
        minutes: Math.round(10 * (last.minutes + minutes)) / 10,
        runs: last.runs + (result.runs ?? 0),
        reached: result.reached,
      };
      writeFileSync(hoursFile, `${JSON.stringify(hours, undefined, 2)}\n`);
      console.log(`${name}: ${JSON.stringify(result)}, ${readdirSync(join(work, name)).length} inputs`);
      faults += result.faults;
    }
    process.exitCode = faults > 0 ? 1 : 0;
  }
} finally {
  rmSync(folder, { recursive: true, force: true });
}
