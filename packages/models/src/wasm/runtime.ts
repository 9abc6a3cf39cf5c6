import { cpu } from '@kv/core';
import { createDecoder } from '../decoder/decoder.ts';
import type { ModelConfig } from '../checkpoint/config.ts';
import { hostDecoder } from '../host/decoder.ts';
import { hostRuntime, type HostRunning } from '../host/runtime.ts';
import { embeddingsOf, type Runtime } from '../sequence/runtime.ts';
import { wasmEngine, type WasmEngineOptions } from './engine.ts';
import type { FastModule } from './kernels.ts';
import { WasmMemory } from './memory.ts';
import { Whole } from './whole.ts';

/** Models whose weights and caches lie in the module's memory. */
export function wasmRuntime(fast: FastModule, options?: WasmEngineOptions): Runtime<HostRunning> {
  const engine = wasmEngine(fast, options);
  return {
    name: engine.name,
    async start(source) {
      const { config, weights, tokenizer, sidecar } = source;
      if (!alike(config))
        return { ...(await hostRuntime({ engine }).start(source)), engine: `${engine.name}, layer by layer` };
      const prepared = await createDecoder(config, weights, engine),
        decoder = hostDecoder(prepared),
        whole = new Whole(prepared.head.team, prepared, options?.exact === true),
        model = { config, tokenizer, sidecar, embeddings: embeddingsOf(decoder, tokenizer) };
      return {
        engine: engine.name,
        decoder,
        memory: ({ backend = cpu, ...rest } = {}) => new WasmMemory(whole, decoder, model, backend, rest),
        destroy() {
          whole.destroy();
          decoder.destroy();
        },
      };
    },
  };
}

/** Whether layers turn alike: then one table of angles serves a pass. */
const alike = ({ ropes }: ModelConfig): boolean => new Set(ropes).size === 1;
