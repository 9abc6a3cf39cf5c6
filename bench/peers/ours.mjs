// One process with @kv/models: answers the jobs of llama-cpp.mjs.
import { fileURLToPath } from 'node:url';
import { compose } from '@kv/core';
import { cpuRuntime, generate, loadModel, onnxRuntime } from '@kv/models';
import { snapkv } from '@kv/scorers-attention';
import { topK } from '@kv/selectors-top-k';

const { model: path, threads, cache, onnx } = JSON.parse(process.argv[2]);
const model = await loadModel(path, {
  ...(cache && { cache }),
  runtime: onnx
    ? await onnxRuntime({ threads, from: fileURLToPath(new URL('..', import.meta.url)) })
    : cpuRuntime({ threads }),
});
const loaded = performance.now();
const evict = compose(snapkv({ window: 32 }), topK());

const jobs = {
  memory: () => process.memoryUsage().rss,
  /** Most bytes of the process so far, and milliseconds from its start to a loaded model. */
  peak: () => 1024 * process.resourceUsage().maxRSS,
  loaded: () => loaded,
  name: () => model.engine,
  encode: ({ encode, count }) => [...model.tokenizer.encode(encode).ids.slice(0, count)],
  logits: async ({ logits: ids, places }) => {
    const rows = (await generate(model, { ids, logits: ids.length, maxNewTokens: 0, block: 512 })).logits;
    return places.map((place) => rows[place - ids.length + rows.length]);
  },
  run: async ({ run: ids, budget, decode }) => {
    const start = performance.now(),
      at = [];
    for await (const _ of generate(model, {
      ids,
      block: 512,
      maxNewTokens: decode + 1,
      ...(budget !== undefined && { policy: evict, budget }),
    }))
      at.push(performance.now());
    return { prefill: (1000 * ids.length) / (at[0] - start), decode: (1000 * decode) / (at[decode] - at[0]) };
  },
};
process.on('message', async (job) => process.send(await jobs[Object.keys(jobs).find((name) => name in job)](job)));
