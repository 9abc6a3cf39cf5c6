import type { Embeddings } from '@kv/core';
import type { ChatTemplate, CheckpointSize, Weights, FileIdentity, Tokenizer } from '@kv/checkpoints';
import type { CacheForm } from '../cache/form.ts';
import type { Decoder } from '../decoder/decoder.ts';
import type { Memory } from './memory.ts';
import type { MemoryOptions, ModelParts } from './model-parts.ts';

/** What a runtime starts from. Weights are read only while it starts. */
export interface ModelSource extends ModelParts {
  /** The weights, read on demand. */
  readonly weights: Weights;
  /** Size of the file's tensors, if there is a file. */
  readonly stored?: CheckpointSize;
  /** How caches are stored. @defaultValue the runtime's choice */
  readonly cache?: CacheForm | undefined;
}

/** A model that is ready to be fed. */
export interface RunningModel {
  /** The engine that runs it, where the runtime chooses one by the model. @defaultValue the runtime's name */
  readonly engine?: string;
  /** How its caches are stored unless a memory's options say otherwise, and how they can be. */
  readonly cacheForm: CacheForm;
  readonly cacheForms: readonly CacheForm[];
  /** Returns an empty memory. @throws KvError for a form that is not among `cacheForms` */
  memory(options?: MemoryOptions): Memory;
  /**
   * Returns the scratch bytes of passes and pieces, not counting weights and what the ledgers of sequences count.
   * Pieces' scratch is shared by all models of a process. Absent where a runtime does not report it.
   */
  scratchBytes?(): number;
  /** Frees the weights. */
  destroy(): void;
}

/** Runs models: takes a checkpoint's weights and gives memories. */
export interface Runtime<M extends RunningModel = RunningModel> {
  /** Its name in reports, such as `wasm`, `onnxruntime-node, f32, 2 threads` or `webgpu, ADAPTER`. */
  readonly name: string;
  /** Takes a checkpoint's weights. @throws KvError for a model that it cannot run */
  start(source: ModelSource): Promise<M>;
}

/** A loaded language model. */
export interface Model extends RunningModel, ModelParts, FileIdentity {
  readonly name: string;
  /** The name of its runtime. */
  readonly engine: string;
  /** Returns the checkpoint's chat template, if it has one. @throws KvError if it does not parse */
  readonly chatTemplate?: () => ChatTemplate | undefined;
  /** Bytes of the file's tensors, if there is a file. */
  readonly weightBytes?: number | undefined;
}

/**
 * Returns a model's input embeddings, as pieces read them: one object per model, so that measurements cached by it are
 * found again.
 */
export const embeddingsOf = (
  { config, embed }: Pick<Decoder, 'config' | 'embed'>,
  tokenizer: Tokenizer,
): Embeddings => ({
  width: config.hidden,
  encode: (text) => tokenizer.encode(text, { special: false }).ids,
  rows: embed,
});
