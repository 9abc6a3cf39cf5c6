// What page.bench.mjs runs in Node and, bundled, in a page: it times a prompt and its answer.
import { cpuRuntime, generate, loadModel } from '@kv/models';

/**
 * Loads a model by path or address. Returns its engine, and a function that times a prompt and `decode` tokens after
 * the first.
 */
export async function open(model, threads) {
  const loaded = await loadModel(model, { runtime: cpuRuntime({ threads }) });
  return {
    engine: loaded.engine,
    encode: (text) => loaded.tokenizer.encode(text).ids,
    async run(ids, decode) {
      const start = performance.now(),
        at = [];
      for await (const _ of generate(loaded, { ids, block: 512, maxNewTokens: decode + 1 })) at.push(performance.now());
      return { prefill: (1000 * ids.length) / (at[0] - start), decode: (1000 * decode) / (at[decode] - at[0]) };
    },
  };
}

if (typeof document === 'object') {
  let opened;
  globalThis.open = async (model, threads) => {
    opened = await open(model, threads);
    return opened.engine;
  };
  globalThis.run = (ids, decode) => opened.run(ids, decode);
}
