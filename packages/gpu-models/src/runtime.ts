import type { Gpu } from '@kv/gpu';
import { createDecoder, embeddingsOf, hostDecoder, hostRunning } from '@kv/engine';
import type { Running, Runtime, Decoder } from '@kv/engine';
import { gpuEngine, type DeviceRunnable, type GpuEngineOptions } from './engine.ts';
import { DeviceMemory } from './sequence/memory.ts';

/** A model whose sequences live on a device. */
export interface DeviceRunning extends Running {
  readonly decoder: Decoder<DeviceRunnable>;
}

/**
 * Sequences on a WebGPU device, from the prompt's ids to each token's; of a memory that is given a `backend` the cache
 * is on the host, beside the same weights.
 */
export function gpuRuntime(gpu: Gpu, options?: GpuEngineOptions): Runtime<DeviceRunning> {
  const engine = gpuEngine(gpu, options);
  return {
    name: engine.name,
    async start({ config, weights, tokenizer, sidecar }) {
      const decoder = await createDecoder(config, weights, engine),
        model = { config, tokenizer, sidecar, embeddings: embeddingsOf(decoder, tokenizer) },
        host = hostRunning(hostDecoder(decoder, engine), model);
      return {
        decoder,
        memory: (options = {}) =>
          options.backend ? host.memory(options) : new DeviceMemory(gpu, decoder, model, options),
        destroy: () => decoder.destroy(),
      };
    },
  };
}
