/**
 * Speed on a GPU: what the adapter can do (copy, fused multiply-adds, a dispatch), products as the engine records them,
 * and models of random weights, from prompt to tokens: full cache against policies, compared with PyTorch. Needs the
 * packages built; bench/README.md has the command for a machine without Node. Results go to FOLDER/gpu.jsonl, one line
 * per case as it ends, and FOLDER/gpu.md. Cases in the file given to --resume are not run again, except those that ran
 * out of time: remove a line to run its case again.
 *
 *   node bench/gpu.mjs --out FOLDER [--shapes SmolLM2-135M,Llama-3.2-1B,Llama-3.1-8B] [--types F16,Q8_0,Q4_0]
 * [--lengths 1024,8192,32768] [--budgets 1024,2048] [--tokens 32]
 *     [--only REGEX] [--resume FILE] [--limit 60] [--seconds 540] [--memory 70] [--in-flight N] [--python python3]
 * [--peak-bandwidth GB/s] [--peak-f32 TFLOP/s] [--peak-f16 TFLOP/s] [--software]
 *
 * --limit: seconds of one case, --seconds: of all; --memory: GiB that a case may hold. --shapes tiny --software runs
 * every line of the benchmark on a software adapter: its times mean nothing.
 */
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { cpus } from 'node:os';
import { isAbsolute, join, relative } from 'node:path';
import { parseArgs } from 'node:util';
import { openGpu } from '@kv/gpu';
import { limitsOf, productsOf } from './gpu/adapter.mjs';
import { bytesOf, casesOf, openModel, runCase } from './gpu/cases.mjs';
import { torchPeer } from './gpu/peer.mjs';
import { profileOf } from './gpu/profile.mjs';
import { shapes, sizesOf } from './gpu/shapes.mjs';
import { tableOf } from './gpu/table.mjs';

const text = (fallback) => ({ type: 'string', default: fallback }),
  open = { type: 'string' };
const { values } = parseArgs({
  options: {
    out: text('.'),
    shapes: text('SmolLM2-135M,Llama-3.2-1B,Llama-3.1-8B'),
    types: text('F16,Q8_0,Q4_0'),
    lengths: text('1024,8192,32768'),
    budgets: text('1024,2048'),
    tokens: text('32'),
    block: text('512'),
    only: text(''),
    resume: open,
    limit: text('60'),
    seconds: text('540'),
    memory: text('70'),
    'in-flight': open,
    python: text('python3'),
    'peak-bandwidth': open,
    'peak-f32': open,
    'peak-f16': open,
    software: { type: 'boolean', default: false },
  },
});
const [names, types] = [values.shapes.split(','), values.types.split(',')],
  numbers = (list) => list.split(',').map(Number),
  [limit, tokens, block] = [Number(values.limit), Number(values.tokens), Number(values.block)];
const lengths = numbers(values.lengths),
  budgets = numbers(values.budgets),
  tiny = names.every((name) => name === 'tiny'),
  wanted = new RegExp(values.only, 'i');
const unknown = names.find((name) => !Object.hasOwn(shapes, name));
if (unknown !== undefined)
  throw new Error(`--shapes: expected some of ${Object.keys(shapes).join(', ')}, got ${unknown}`);

const end = performance.now() + 1000 * Number(values.seconds),
  left = () => (end - performance.now()) / 1000;
mkdirSync(values.out, { recursive: true });
const file = join(values.out, 'gpu.jsonl'),
  before =
    values.resume !== undefined && existsSync(values.resume)
      ? readFileSync(values.resume, 'utf8')
          .split('\n')
          .filter(Boolean)
          .map((line) => JSON.parse(line))
      : [];
const results = before.filter(({ later }) => later === undefined);
const put = (one) => {
  results.push(one);
  writeFileSync(file, results.map((each) => `${JSON.stringify(each)}\n`).join(''));
  writeFileSync(join(values.out, 'gpu.md'), tableOf(results));
  console.log(
    `${(performance.now() / 1000).toFixed(0)} s  ${one.name}${one.skipped === undefined ? '' : `: ${one.skipped}`}`,
  );
};

/** Runs a case and stores its result, if it was asked for, is not there yet and has time left. An error is a result. */
async function once(name, run) {
  if (!wanted.test(name) || results.some((one) => one.name === name)) return;
  if (left() < 10) return put({ name, later: true, skipped: 'no time was left: run again with --resume' });
  try {
    put({ name, ...(await run()) });
  } catch (error) {
    put({ name, skipped: error instanceof Error ? error.message.split('\n')[0] : String(error) });
  }
}

const first = await openGpu(),
  machine = {
    adapter: first.name,
    software: first.software,
    features: [...first.device.features].sort(),
    maxBufferSize: first.device.limits.maxBufferSize,
    maxStorageBufferBindingSize: first.device.limits.maxStorageBufferBindingSize,
  };
if (machine.software && !values.software)
  throw new Error(
    `expected a hardware adapter, got ${machine.adapter}: --shapes tiny --software tries the program on it`,
  );
const f16 = first.device.features.has('shader-f16'),
  given = Object.fromEntries(
    ['peak-bandwidth', 'peak-f32', 'peak-f16'].flatMap((key) =>
      values[key] === undefined ? [] : [[key, Number(values[key])]],
    ),
  );
put({
  name: `run ${new Date().toISOString()}`,
  kind: 'run',
  ...machine,
  cpu: cpus()[0]?.model,
  node: process.version,
  arguments: process.argv.slice(2).map((word) => (isAbsolute(word) ? relative('.', word) : word)),
  ...given,
});
await once('adapter', async () => ({ kind: 'adapter', ...(await limitsOf(first, tiny)) }));
await once('products', async () => ({ kind: 'products', products: await productsOf(first, tiny, types) }));
first.destroy();

const peer = (job) =>
  torchPeer(values.python, { tiny, tokens, lengths, seconds: limit, ...job }, Math.min(left(), 2 * limit + 60));
await once('torch products', async () => ({ kind: 'torch', lines: await peer({ limits: true }) }));
const cases = casesOf({ names, types, budgets, f16 });
for (const name of names) {
  const shape = shapes[name];
  for (const [at, { type, half }] of [
    ...new Map(cases.filter((one) => one.shape === name).map((one) => [`${one.type}${one.half}`, one])).values(),
  ].entries()) {
    await withModel(
      shape,
      cases.filter((one) => one.shape === name && one.type === type && one.half === half),
    );
    if (at > 0) continue;
    await once(`${name} torch`, async () => ({
      kind: 'torch',
      shape: name,
      lines: await peer({ shape: sizesOf(shape) }),
    }));
    await once(`${name} profile`, () =>
      profileOf(shape, { type, half }, { tokens, length: Math.min(4096, lengths.at(-1)), budget: budgets[0] }),
    );
  }
}
console.log(readFileSync(join(values.out, 'gpu.md'), 'utf8'));
process.exit(0);

/** Runs all cases of one model, which is loaded for the first of them. */
async function withModel(shape, list) {
  let loaded;
  for (const one of list)
    await once(one.name, async () => {
      const bytes = bytesOf(one, shape, lengths.at(-1));
      if (bytes > 2 ** 30 * Number(values.memory))
        return { skipped: `expected at most ${values.memory} GiB (--memory), needs ${(bytes / 2 ** 30).toFixed(1)}` };
      loaded ??= await openModel(shape, one);
      try {
        const seconds = Math.min(limit, left()),
          ran = await runCase(loaded, one, shape, {
            lengths,
            tokens,
            block,
            seconds,
            ...(values['in-flight'] !== undefined && { inFlight: Number(values['in-flight']) }),
          });
        return {
          kind: 'case',
          ...one,
          ...ran,
          ...(ran.stopped && seconds < limit && { later: true }),
          loadMs: loaded.loadMs,
          weightBytes: loaded.bytes,
        };
      } catch (error) {
        loaded.end(); // a device keeps its error: the next case gets a new one
        loaded = undefined;
        throw error;
      }
    });
  loaded?.end();
}
