// Where the time goes: milliseconds of each stage of a prefill (blocks of 512) and of a decoded token, on the picked
// engine.
//   pnpm --filter @kv/models build && node packages/models/bench/stages.mjs MODEL [tokens] [turns] [exact]
import { cpus } from 'node:os';
import { fileURLToPath } from 'node:url';
import { LayerCache, layerAttention, Ledger } from '@kv/engine';
import { cpuRuntime, exactRuntime, greedy, loadModel } from '../dist/index.js';

const [path, tokens = '1024', turns = '3', exact] = process.argv.slice(2);
const { decoder, config } = await loadModel(path, {
  runtime:
    exact === 'exact'
      ? await exactRuntime({ from: fileURLToPath(new URL('../../../bench', import.meta.url)) })
      : cpuRuntime(),
});
const count = Number(tokens),
  decoded = 48;
let spent = {};

async function timed(stage, work) {
  const start = performance.now(),
    value = await work();
  spent[stage] = (spent[stage] ?? 0) + performance.now() - start;
  return value;
}

async function step(caches, ids, start) {
  const positions = Uint32Array.from(ids, (_, i) => start + i);
  let x = decoder.embed(ids);
  for (const [l, cache] of caches.entries()) {
    const { q, k, v } = await timed('project', () => decoder.project(l, x, positions));
    await timed('append', () => cache.append(k, v, positions));
    const attention = { q, queryPositions: positions, cache, ...layerAttention(config, l) };
    if (ids.length === 1)
      x = await timed('attention, finish and project', () => decoder.attendAndFinish(l, x, attention));
    else {
      const attended = await timed('attention', () => decoder.attend(attention));
      x = await timed('finish and project', () => decoder.finish(l, x, attended));
    }
  }
  return timed('head', () => decoder.logits(x.subarray(-config.hidden)));
}

const show = (name, per) => {
  console.log(
    name,
    Object.entries(spent)
      .map(([stage, ms]) => `${stage} ${(ms / per).toFixed(2)}`)
      .join(', '),
  );
  spent = {};
};
console.log(`${cpus()[0].model}, ${decoder.engine}, ${count} tokens, ms`);
for (let turn = 0; turn < Number(turns); turn++) {
  const caches = Array.from(
    { length: config.layers },
    () => new LayerCache(config.kvHeads, config.headDim, new Ledger()),
  );
  for (const cache of caches) cache.reserve(count + decoded);
  const ids = Array.from({ length: count }, (_, i) => (i * 7919) % config.vocab);
  let logits;
  for (let b = 0; b < count; b += 512) logits = await step(caches, ids.slice(b, b + 512), b);
  show('prefill:', 1);
  for (let i = 0; i < decoded; i++) logits = await step(caches, [greedy(logits)], count + i);
  show('a decoded token:', decoded);
}
process.exit(0);
