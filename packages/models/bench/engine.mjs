// Prefill and decoding of a checkpoint, this package's SIMD engine against its plain loops, turn by turn in one
// process.
//   pnpm --filter @kv/models build && node packages/models/bench/engine.mjs FOLDER [turns]
// Prints milliseconds of CPU time (a busy machine lengthens wall time, not this), tokens a second from them, and the
// ratio plain / SIMD.
import { cpus } from 'node:os';
import {
  attend,
  greedy,
  LayerCache,
  Ledger,
  loadModel,
  plainEngine,
  referenceLinear,
  simdEngine,
  simdLinear,
} from '../dist/index.js';

const [folder, turns = '3'] = process.argv.slice(2);
const kinds = [
  [simdLinear(), simdEngine()],
  [referenceLinear, plainEngine()],
];
const runs = await Promise.all(
  kinds.map(async ([linear, engine]) => ({ engine, decoder: (await loadModel(folder, { linear })).decoder })),
);
const cpu = () => process.cpuUsage().user / 1000;

async function step({ decoder, engine }, caches, ids, start) {
  const positions = Uint32Array.from(ids, (_, i) => start + i);
  let x = decoder.embed(ids);
  for (const [layer, cache] of caches.entries()) {
    const { q, k, v } = await decoder.project(layer, x, positions);
    cache.append(k, v, positions);
    x = await decoder.finish(layer, x, attend({ q, queryPositions: positions, cache, engine }));
  }
  return decoder.logits(x.subarray(-decoder.config.hidden));
}

/** CPU milliseconds of a prefill of n tokens and of one decoded token after it. */
async function measure(run, n, decoded) {
  const { layers, kvHeads, headDim, vocab } = run.decoder.config;
  const caches = Array.from({ length: layers }, () => new LayerCache(kvHeads, headDim, new Ledger()));
  for (const cache of caches) cache.reserve(n + decoded);
  const ids = Array.from({ length: n }, (_, i) => (i * 7919) % vocab);
  let start = cpu();
  let logits = await step(run, caches, ids, 0);
  const prefill = cpu() - start;
  start = cpu();
  for (let i = 0; i < decoded; i++) logits = await step(run, caches, [greedy(logits)], n + i);
  return [prefill, (cpu() - start) / decoded];
}

const median = (list) => list.toSorted((a, b) => a - b)[Math.floor(list.length / 2)];
console.log(`${cpus()[0].model}, Node ${process.version}, ${new Date().toISOString().slice(0, 10)}, ${turns} turns\n`);
console.log(
  '| tokens | prefill, tokens/s | plain / SIMD | decoding, tokens/s | plain / SIMD |\n| --- | --- | --- | --- | --- |',
);
for (const run of runs) await measure(run, 64, 20);
for (const n of [256, 1024, 2048]) {
  const samples = runs.map(() => []);
  for (let turn = 0; turn < Number(turns); turn++)
    for (const [i, run] of runs.entries()) samples[i].push(await measure(run, n, i === 0 ? 50 : 5));
  const at = (i, part) => median(samples[i].map((s) => s[part]));
  const ratio = (part) => median(samples[1].map((s, turn) => s[part] / samples[0][turn][part])).toFixed(1);
  console.log(
    `| ${n} | ${((1000 * n) / at(0, 0)).toFixed(0)} | ${ratio(0)} | ${(1000 / at(0, 1)).toFixed(0)} | ${ratio(1)} |`,
  );
}
