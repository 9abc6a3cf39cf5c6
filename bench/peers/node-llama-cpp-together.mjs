// One process with node-llama-cpp, for serve.bench.mjs: several sequences in one context, stepped together.
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';

const { model: modelPath, threads, folder, sequences, most } = JSON.parse(process.argv[2]);
const { getLlama } = await import(pathToFileURL(join(folder, 'node_modules/node-llama-cpp/dist/index.js')));
const llama = await getLlama({ gpu: false, build: 'never', logLevel: 'error' });
const model = await llama.loadModel({ modelPath });
// of each sequence
const context = await model.createContext({ contextSize: most + 64, sequences, batchSize: 512, threads });

/** Measures tokens a second of all sequences, from the last one's first token to the first one's last token. */
async function speed(prompts, tokens) {
  let [begun, from, made, all, ended] = [0, 0, 0, 0, undefined];
  await Promise.all(
    prompts.map(async (ids) => {
      const sequence = context.getSequence();
      let own = 0;
      for await (const _ of sequence.evaluate(ids, { temperature: 0, yieldEogToken: true })) {
        all++;
        if (own === 0 && ++begun === prompts.length) [from, made] = [performance.now(), all];
        if (++own === tokens) break;
      }
      ended ??= (1000 * (all - made)) / (performance.now() - from);
      sequence.dispose();
    }),
  );
  return ended;
}
process.on('message', async ({ prompts, tokens }) => process.send(await speed(prompts, tokens)));
