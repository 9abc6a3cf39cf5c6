// One process with node-llama-cpp: answers the jobs of llama-cpp.mjs.
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';

const { model: modelPath, threads, cache, most, folder } = JSON.parse(process.argv[2]);
const type = { f16: 'F16', q8: 'Q8_0', q4: 'Q4_0' }[cache];
const { getLlama } = await import(pathToFileURL(join(folder, 'node_modules/node-llama-cpp/dist/index.js')));
const llama = await getLlama({ gpu: false, build: 'never', logLevel: 'error' });
const model = await llama.loadModel({ modelPath });
const context = await model.createContext({
  contextSize: most + 128,
  batchSize: 512,
  threads,
  // values in fewer bits want flash attention
  ...(type && { experimentalKvCacheKeyType: type, experimentalKvCacheValueType: type, flashAttention: true }),
});

const loaded = performance.now();

const jobs = {
  memory: () => process.memoryUsage().rss,
  /** Most bytes of the process so far, and milliseconds from its start to a loaded model. */
  peak: () => 1024 * process.resourceUsage().maxRSS,
  loaded: () => loaded,
  logits: async ({ logits: ids, places }) => {
    const sequence = context.getSequence();
    const answers = await sequence.controlledEvaluate(
      ids.map((id, i) => (places.includes(i) ? [id, { generateNext: { logits: true } }] : id)),
    );
    sequence.dispose();
    return places.map((place) => {
      const row = new Float32Array(answers[place].next.logits.size);
      for (const [token, logit] of answers[place].next.logits) row[token] = logit;
      return row;
    });
  },
  run: async ({ run: ids, decode }) => {
    const sequence = context.getSequence(),
      start = performance.now(),
      at = [];
    for await (const _ of sequence.evaluate(ids, { temperature: 0 })) if (at.push(performance.now()) > decode) break;
    sequence.dispose();
    return { prefill: (1000 * ids.length) / (at[0] - start), decode: (1000 * decode) / (at[decode] - at[0]) };
  },
};
process.on('message', async (job) => process.send(await jobs[Object.keys(jobs).find((name) => name in job)](job)));
