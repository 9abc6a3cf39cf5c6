import { headDims } from '@kv/checkpoints';
import { KvError } from '@kv/core';
import { formNames } from '@kv/core/engine';
import type { Gpu } from '@kv/gpu';
import { createDecoder, embeddingsOf, endModel, formOf, Memory } from '@kv/engine';
import type { RunningModel, Runtime } from '@kv/engine';
import type { Decoder } from '@kv/engine';
import { gpuEngine, type DeviceRunnable, type GpuRuntimeOptions } from './engine.ts';
import { DeviceCaches } from './sequence/device-caches.ts';

/** A model whose sequences live on a device. */
export interface RunningDeviceModel extends RunningModel {
  readonly decoder: Decoder<DeviceRunnable>;
}

/**
 * Returns a runtime on a WebGPU device: weights, caches and policies are there; ids and decisions are read back.
 *
 * @throws KvError for an unknown option, and for `half` on an adapter without `shader-f16`
 */
export function gpuRuntime(gpu: Gpu, options?: GpuRuntimeOptions): Runtime<RunningDeviceModel> {
  const engine = gpuEngine(gpu, options);
  return {
    name: engine.name,
    async start({ config, weights, tokenizer, sidecar, cache }) {
      const cacheForm = formOf(cache, { otherwise: 'f32', headDims: headDims(config) }),
        decoder = await createDecoder(config, weights, engine),
        model = { config, tokenizer, sidecar, embeddings: embeddingsOf(decoder, tokenizer) };
      return {
        decoder,
        cacheForm,
        cacheForms: formNames,
        memory({ backend, form, ...options } = {}) {
          if (backend)
            throw new KvError(
              'backend',
              `expected none for a model on ${gpu.name}, whose policies run where its caches are, got ${backend.name}: leave it out, or load the model on the CPU`,
            );
          return new Memory(
            new DeviceCaches(gpu, decoder, model, {
              ...options,
              form: formOf(form, { otherwise: cacheForm, headDims: headDims(config) }),
            }),
          );
        },
        destroy() {
          if (endModel(model)) decoder.destroy();
        },
      };
    },
  };
}
