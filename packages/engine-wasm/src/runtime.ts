import { headDims } from '@kv/checkpoints';
import { formNames } from '@kv/core/engine';
import { cpuWith, scratchBytes } from '@kv/cpu/engine';
import {
  formOf,
  createDecoder,
  endModel,
  hostDecoder,
  hostRunning,
  embeddingsOf,
  HostCaches,
  Memory,
} from '@kv/engine';
import type { Decoder, Runtime, RunningHostModel } from '@kv/engine';
import { engineName, wasmEngine } from './engine.ts';
import type { WasmEngineOptions, WasmRunnable } from './engine.ts';
import { heapKernels } from './host-kernels.ts';
import { heapProducts } from './host-products.ts';
import type { FastModule } from './kernels.ts';
import { fusedPasses } from './passes.ts';
import { FusedPass } from './fused-pass.ts';
import { heapRowEngine } from './row-engine.ts';
import type { ThreadPool } from './thread-pool.ts';

/**
 * Returns a runtime whose models keep weights and caches in the module's memory.
 * @param fast the compiled module, see `fastModule`
 */
export function wasmRuntime(fast: FastModule, options?: WasmEngineOptions): Runtime<RunningHostModel> {
  const engine = wasmEngine(fast, options);
  return {
    name: engine.name,
    async start({ config, weights, tokenizer, sidecar, cache }) {
      const exact = options?.exact === true,
        cacheForm = formOf(cache, { otherwise: exact ? 'f32' : 'q8', headDims: headDims(config) }),
        prepared = await createDecoder(config, weights, engine),
        { pool } = prepared.head,
        decoder = hostDecoder(prepared, { rowEngine: heapRowEngine(pool) }),
        own = cpuWith((products) => heapProducts(pool, products), heapKernels(pool)),
        name = engineName(fast, exact, pool.threads),
        pools = poolsOf(prepared);
      if (pools.length > 1) {
        // a layer at a time, over caches outside the memories
        const held = pools.reduce((sum, { heap }) => sum + heap.live, 0);
        return {
          ...hostRunning(decoder, { config, tokenizer, sidecar }, { backend: own, cacheForm }),
          engine: `${name}, ${pools.length} memories`,
          scratchBytes: () =>
            scratchBytes() + pools.reduce((sum, { heap }) => sum + heap.memory.buffer.byteLength, -held),
        };
      }
      const { heap } = pool,
        placed = heap.live,
        fused = new FusedPass(pool, prepared, exact),
        passes = fusedPasses(fused),
        model = { config, tokenizer, sidecar, embeddings: embeddingsOf(decoder, tokenizer) };
      return {
        engine: name,
        decoder,
        cacheForm,
        cacheForms: formNames,
        memory: ({ backend = own, form, ...rest } = {}) =>
          new Memory(
            new HostCaches(decoder, model, backend, {
              ...rest,
              form: formOf(form, { otherwise: cacheForm, headDims: headDims(config) }),
              passes,
            }),
          ),
        // what is free in the heap is of the process too
        scratchBytes: () => scratchBytes() + heap.memory.buffer.byteLength - placed - fused.store.bytes,
        destroy() {
          if (!endModel(model)) return;
          fused.destroy();
          decoder.destroy();
        },
      };
    },
  };
}

/** Returns the pools whose memories hold a decoder's weights. */
const poolsOf = ({ layers, head }: Decoder<WasmRunnable>): readonly ThreadPool[] => [
  ...new Set([...layers.flatMap(({ project, finish }) => [project.pool, finish.pool]), head.pool]),
];
