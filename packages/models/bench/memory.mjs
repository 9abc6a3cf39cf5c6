// The process's memory: after loading, after a prefill in blocks of 512, after 32 decoded tokens, beside the weights as
// the WASM engine holds them.
//   pnpm --filter @kv/models build && node --expose-gc packages/models/bench/memory.mjs MODEL [tokens]
import { cpus } from 'node:os';
import { defaultLinear, greedy, LayerCache, layerAttention, Ledger, loadModel } from '../dist/index.js';

const [path, tokens = '1024'] = process.argv.slice(2);
const MB = (bytes) => `${(bytes / 1e6).toFixed(0)} MB`;
const base = process.memoryUsage().rss,
  linear = defaultLinear(),
  started = performance.now();
let [held, largest] = [0, 0];
const counted = (weight) => {
  const bytes = 4 * weight.outputs * weight.inputs;
  held += bytes;
  largest = Math.max(largest, bytes);
  return linear(weight);
};
const { decoder, config } = await loadModel(path, { linear: counted });
const show = (stage) => {
  globalThis.gc?.();
  const rss = process.memoryUsage().rss - base,
    peak = 1024 * process.resourceUsage().maxRSS - base;
  console.log(
    `${stage}: ${MB(rss)} above the bare process, peak ${MB(peak)}, ${(peak / held).toFixed(2)} of the weights; ${((performance.now() - started) / 1000).toFixed(1)} s`,
  );
};
console.log(
  `${cpus()[0].model}, Node ${process.version}, ${new Date().toISOString().slice(0, 10)}: products as f32 ${MB(held)}, the largest ${MB(largest)}; the bare process ${MB(base)}`,
);
show('loaded');

const ledger = new Ledger(),
  caches = Array.from({ length: config.layers }, () => new LayerCache(config.kvHeads, config.headDim, ledger));
async function step(ids, start) {
  const positions = Uint32Array.from(ids, (_, i) => start + i);
  let x = decoder.embed(ids);
  for (const [l, cache] of caches.entries()) {
    const { q, k, v } = await decoder.project(l, x, positions);
    cache.append(k, v, positions);
    x = await decoder.finish(
      l,
      x,
      await decoder.attend({ q, queryPositions: positions, cache, ...layerAttention(config, l) }),
    );
  }
  return decoder.logits(x.subarray(-config.hidden));
}
const count = Number(tokens),
  ids = Array.from({ length: count }, (_, i) => (i * 7919) % config.vocab);
let logits;
for (let at = 0; at < count; at += 512) logits = await step(ids.slice(at, at + 512), at);
show(`${count} tokens read`);
for (let i = 0; i < 32; i++) logits = await step([greedy(logits)], count + i);
show('32 tokens decoded');
console.log(`cache: ${MB(ledger.allocated)}`);
