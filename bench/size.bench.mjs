/**
 * Speed and memory at the sizes of real models, next to node-llama-cpp in the same run: files of random weights in the shapes
 * of Llama 3.2 1B and 3B, in Q4_0, Q4_K_M and Q8_0, which it writes into `--folder` once. Of each file: tokens a second of a
 * prompt and of decoding, the peak of memory as a multiple of the file, the first token's time as a multiple of reading the
 * file, and shares of what this machine can do at most: decoding of the bytes that it reads, prompts of its multiply-adds.
 *
 *   npm run bench size      or, once built:   node bench/size.bench.mjs --shapes 1B --types Q4_0,Q8_0 --turns 3 --peer FOLDER
 *
 * `--cold`, as root on Linux, empties the system's cache of files before each reading and each start, as after a boot. The
 * peer is installed as by peers/llama-cpp.mjs. On an idle machine; for Node 20 and 24 run it in each. `--out NAME` also
 * writes the table to bench/results/NAME.md.
 */
import { execFileSync } from 'node:child_process';
import { createReadStream, mkdirSync, statSync, writeFileSync } from 'node:fs';
import { availableParallelism, cpus } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { commandLine } from './lib/command-line.mjs';
import { median, spread } from './lib/spread.mjs';
import { table } from './lib/table.mjs';
import { peerFolder, version, worker } from './peers/processes.mjs';
import { multiplyAdds, readBandwidth } from './size/limits.mjs';
import { fileTypes, writeRandomGguf } from './size/random-gguf.mjs';

const here = (path) => fileURLToPath(new URL(path, import.meta.url));
const { shapes, types, folder, tokens, decode, turns, threads, cold, out, ...asked } = commandLine({
  shapes: ['1B', '3B'],
  types: Object.keys(fileTypes),
  folder: here('../.kv/size'),
  tokens: 512,
  decode: 32,
  turns: 3,
  threads: availableParallelism(),
  cold: false,
  peer: undefined,
  'without-amx': false,
  out: undefined,
});
const peer = peerFolder(asked);

/** Empties the system's cache of files, if that is asked for. */
function chill() {
  if (!cold) return;
  execFileSync('sync');
  writeFileSync('/proc/sys/vm/drop_caches', '3');
}

/** Returns the milliseconds of reading a file from its first byte to its last. */
async function readingTime(path) {
  chill();
  const from = performance.now();
  for await (const _ of createReadStream(path, { highWaterMark: 2 ** 22 }));
  return performance.now() - from;
}

/** Measures one engine alone: loading, then its first token; returns it, ready for turns. */
async function started(file, config, first) {
  chill();
  const engine = worker(file, config),
    loaded = await engine.ask({ loaded: true }),
    from = performance.now();
  await engine.ask({ run: first, decode: 1 });
  return { engine, loaded, first: loaded + performance.now() - from };
}

async function measure(shape, type) {
  const path = join(folder, `${shape}-${type}.gguf`),
    facts = writeRandomGguf(path, shape, type),
    bytes = statSync(path).size,
    ids = Array.from({ length: tokens }, (_, i) => (i * 7919 + 31) % Math.min(facts.vocab, 50_000)),
    reading = Math.min(await readingTime(path), await readingTime(path)),
    [bandwidth, products] = [await readBandwidth(threads), await multiplyAdds(fileTypes[type].most, threads)],
    config = { model: path, threads, onnx: false },
    ours = await started('ours.mjs', config, ids.slice(0, 8)),
    theirs = await started('node-llama-cpp.mjs', { ...config, most: tokens, folder: peer }, ids.slice(0, 8)),
    runs = { ours: [], theirs: [] };
  for (let turn = 0; turn < turns; turn++)
    for (const name of turn % 2 === 0 ? ['ours', 'theirs'] : ['theirs', 'ours'])
      runs[name].push(await (name === 'ours' ? ours : theirs).engine.ask({ run: ids, decode }));
  const name = await ours.engine.ask({ name: true }),
    peaks = { ours: await ours.engine.ask({ peak: true }), theirs: await theirs.engine.ask({ peak: true }) };
  ours.engine.end();
  theirs.engine.end();
  // keys and values of all slots so far, in 8 bits with a scale of 32 bits a row in ours, in halves in the peer's
  const { layers, kvHeads, heads, headDim } = facts,
    slots = 2 * layers * kvHeads * (tokens + decode / 2),
    read = { ours: facts.read + slots * (headDim + 4), theirs: facts.read + slots * 2 * headDim },
    /** Multiply-adds of the prompt: products of each token, the head of the last, scores and mixtures of what came before. */
    work = facts.layerProducts * tokens + facts.headProduct + layers * heads * headDim * tokens * tokens,
    of = (name, part) => runs[name].map((run) => run[part]),
    share = (name) => ({
      decode: (median(of(name, 'decode')) * read[name]) / bandwidth,
      prefill: ((median(of(name, 'prefill')) / tokens) * work) / products,
    });
  return { shape, type, bytes, name, runs, of, reading, ours, theirs, peaks, bandwidth, products, share };
}

const results = [];
for (const shape of shapes)
  for (const type of types) {
    results.push(await measure(shape, type));
    console.error(`${shape} ${type} measured`);
  }

const gigabytes = (bytes) => `${(bytes / 1e9).toFixed(2)} GB`,
  percent = (x) => `${(100 * x).toFixed(0)} %`,
  ratios = ({ of }, part) => spread(of('ours', part).map((x, i) => x / of('theirs', part)[i]));
const page = `# Sizes of real models, next to node-llama-cpp ${version}

${new Date().toISOString().slice(0, 10)}, ${cpus()[0].model} (${availableParallelism()} cores, ${threads} threads), Node ${process.version}; random weights, a prompt of ${tokens} tokens and ${decode} decoded ones, medians of ${turns} turns (smallest-largest); ratios are of the same turn, above 1 is faster than the peer. Ours is ${results[0].name}.

${table([
  ['file', 'bytes', 'prefill, tokens/s', 'peer', 'ratio', 'decoding, tokens/s', 'peer', 'ratio'],
  ...results.map((one) => [
    `${one.shape} ${one.type}`,
    gigabytes(one.bytes),
    ...[spread(one.of('ours', 'prefill'), 1), spread(one.of('theirs', 'prefill'), 1), ratios(one, 'prefill')],
    ...[spread(one.of('ours', 'decode'), 1), spread(one.of('theirs', 'decode'), 1), ratios(one, 'decode')],
  ]),
])}

The peak of a process after all of this as a multiple of the file (the peer maps the file), and the time from its start to a loaded model and to a first token as multiples of reading the file, ${cold ? "each with the system's cache of files emptied" : 'which the system then holds in memory'}:

${table([
  ['file', 'peak, ours', 'peer', 'reading', 'loaded, ours', 'peer', 'first token, ours', 'peer'],
  ...results.map(({ shape, type, bytes, peaks, reading, ours, theirs }) => [
    `${shape} ${type}`,
    ...[(peaks.ours / bytes).toFixed(2), (peaks.theirs / bytes).toFixed(2), `${(reading / 1000).toFixed(2)} s`],
    ...[ours.loaded, theirs.loaded, ours.first, theirs.first].map((ms) => (ms / reading).toFixed(1)),
  ]),
])}

Shares of this machine's own limits, measured in the same run: decoding of the bytes that its threads read a second (weights and caches, each once a token), a prompt of the multiply-adds of one large product alone with a weight of that type. The second limit is that of this engine's module; the peer's share can be above it:

${table([
  ['file', 'reads at most', 'decoding, ours', 'peer', 'multiply-adds at most', 'prefill, ours', 'peer'],
  ...results.map(({ shape, type, bandwidth, products, share }) => [
    `${shape} ${type}`,
    ...[`${gigabytes(bandwidth)}/s`, percent(share('ours').decode), percent(share('theirs').decode)],
    ...[`${(products / 1e9).toFixed(0)} G/s`, percent(share('ours').prefill), percent(share('theirs').prefill)],
  ]),
])}
`;
console.log(page);
if (out !== undefined) {
  mkdirSync(here('results'), { recursive: true });
  writeFileSync(here(`results/${out}.md`), page);
}
process.exit(0);
