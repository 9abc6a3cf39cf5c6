import { KvError } from '@kv/core';
import { expectOptions, showValue } from '@kv/core/engine';
import {
  embeddedFolder,
  blobsOf,
  openCheckpoint,
  type OpenOptions,
  sidecarBlob,
  sidecars,
  withFingerprint,
  type FileIdentity,
  turnEnd,
} from '@kv/checkpoints';
import type { CacheForm, HostEngine, Model, RunningModel, Runtime } from '@kv/engine';
import { cpuRuntime } from './cpu-runtime.ts';
import { hostRuntime, type HostModel } from '@kv/engine';
import { LOAD } from './options.ts';

/** Options of `loadModel` on the default runtime or with an engine. */
export interface LoadOptions extends OpenOptions {
  /** Engine that runs the model's programs, with caches on the host. @defaultValue the model runs on `cpuRuntime()` */
  readonly engine?: HostEngine | undefined;
  /** How keys and values are stored. @defaultValue the engine's choice: q8 where weights are quantised, else f32 */
  readonly cache?: CacheForm | undefined;
  /** Not with `engine`; see `RuntimeOptions`. @defaultValue none */
  readonly runtime?: undefined;
}

/** Options of `loadModel` on a given runtime. */
export interface RuntimeOptions<M extends RunningModel> extends OpenOptions {
  /** Runtime that the model runs on. @defaultValue `cpuRuntime()` */
  readonly runtime: Runtime<M>;
  /** How keys and values are stored. @defaultValue the runtime's choice */
  readonly cache?: CacheForm | undefined;
  /** Not with `runtime`; see `LoadOptions`. @defaultValue none */
  readonly engine?: undefined;
}

/**
 * Loads `'embedded'`, a path or URL that ends in `.gguf`, or the folder or base URL of a Hugging Face checkpoint:
 * config.json, model.safetensors (or its shards), tokenizer.json. With `files` as blobs, such as a user chooses in a
 * browser, only those are read. Weights are read once, a few rows at a time where the engine takes them so, else a program
 * at a time. The file stays open, until `destroy`, where rows of a table are read from it as tokens come (Gemma 4's inputs of
 * layers). The `eosIds` are all tokens that end an answer: also the checkpoint's `ends` and the end-of-turn token of its chat template.
 * `bannedIds` are those of the checkpoint's generation_config.json.
 * @param name the model
 * @param options the runtime or engine, and limits of a download
 * @throws KvError in one sentence for any other name, and for any error in the files
 * @example
 * ```ts
 * const model = await loadModel('embedded'); // or 'model.gguf', a folder, a URL
 * ```
 */
export async function loadModel(name: string, options?: LoadOptions): Promise<HostModel>;
export async function loadModel<M extends RunningModel>(name: string, options: RuntimeOptions<M>): Promise<Model & M>;
export async function loadModel(name: string, all: LoadOptions | RuntimeOptions<RunningModel> = {}): Promise<Model> {
  if (typeof name !== 'string' || name === '')
    throw new KvError('loadModel', `expected the path or URL of a model, or 'embedded', got ${showValue(name)}`);
  expectOptions('loadModel', LOAD, all);
  const { runtime, engine, cache, ...options } = all;
  if (runtime && engine) throw new KvError('loadModel', 'expected a runtime or an engine for the host, got both');
  const runs = runtime ?? (engine ? hostRuntime({ engine }) : cpuRuntime());
  const {
    config: stored,
    weights,
    stored: size,
    tokenizer,
    ends,
    banned,
    chatTemplate,
    close,
  } = await openCheckpoint(name === 'embedded' && !blobsOf(options.files) ? embeddedFolder() : name, options);
  /** Whether rows of a table are read from the file while the model runs. */
  let keeps = false;
  try {
    const end = turnEnd(chatTemplate, tokenizer),
      config = {
        ...stored,
        eosIds: [...new Set([...stored.eosIds, ...ends, ...(end === undefined ? [] : [end])])],
        ...(banned.length > 0 && { bannedIds: banned }),
      };
    let names: FileIdentity | undefined;
    const print = withFingerprint(weights),
      blobs = blobsOf(options.files),
      fromBlobs = blobs && ((file: string) => sidecarBlob(name, file, blobs)),
      parts = { config, tokenizer, sidecar: sidecars(name, () => names, fromBlobs) };
    const running = await runs.start({ ...parts, weights: print.weights, stored: size, cache });
    names = await print.names(stored);
    keeps = stored.perLayer !== undefined;
    return {
      ...{ engine: runs.name, ...running, ...parts, ...names, name, chatTemplate, weightBytes: size?.bytes },
      ...(keeps && {
        destroy: () => {
          running.destroy();
          void close();
        },
      }),
    };
  } finally {
    if (!keeps) await close();
  }
}
