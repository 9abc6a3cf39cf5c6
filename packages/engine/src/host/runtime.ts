import { headDims } from '@kv/checkpoints';
import { cpu } from '@kv/cpu';
import { formNames, settleOwn } from '@kv/core/engine';
import { scratchBytes } from '@kv/cpu/engine';
import type { Backend } from '@kv/core';
import { formOf, type CacheForm } from '../cache/form.ts';
import { createDecoder } from '../decoder/decoder.ts';
import { embeddingsOf } from '../memory/runtime.ts';
import { endModel, type ModelParts } from '../memory/model-parts.ts';
import type { Model, RunningModel, Runtime } from '../memory/runtime.ts';
import { hostDecoder } from './decoder.ts';
import type { HostDecoder } from './decoder.ts';
import { Memory } from '../memory/memory.ts';
import { HostCaches } from './host-caches.ts';
import { HOST, type HostOptions } from '../options.ts';

/** A model whose caches are on the host. */
export interface RunningHostModel extends RunningModel {
  readonly decoder: HostDecoder;
}

/** A loaded model whose caches are on the host. */
export type HostModel = Model & RunningHostModel;

/** Returns a runtime with caches on the host and programs wherever the engine runs them. */
export function hostRuntime(options: HostOptions): Runtime<RunningHostModel> {
  const { backend, engine } = settleOwn('hostRuntime', HOST, options);
  return {
    name: engine.name,
    async start({ config, weights, cache, ...parts }) {
      const form = formOf(cache, { otherwise: 'f32', headDims: headDims(config) }),
        decoder = hostDecoder(await createDecoder(config, weights, engine), engine);
      return hostRunning(decoder, { config, ...parts }, { backend, cacheForm: form });
    },
  };
}

/** Returns a model with caches on the host over an existing decoder. */
export function hostRunning(
  decoder: HostDecoder,
  { config, tokenizer, sidecar }: ModelParts,
  { backend = cpu, cacheForm = 'f32' }: { readonly backend?: Backend | undefined; readonly cacheForm?: CacheForm } = {},
): RunningHostModel {
  const model = { config, tokenizer, sidecar, embeddings: embeddingsOf(decoder, tokenizer) };
  return {
    decoder,
    cacheForm,
    cacheForms: formNames,
    memory: ({ backend: own = backend, form, ...options } = {}) =>
      new Memory(
        new HostCaches(decoder, model, own, {
          ...options,
          form: formOf(form, { otherwise: cacheForm, headDims: headDims(config) }),
        }),
      ),
    scratchBytes,
    destroy() {
      if (endModel(model)) decoder.destroy();
    },
  };
}
