import type { Backend, Embeddings } from '@kv/core';
import type { ChatTemplate, ModelConfig, CheckpointSize, Weights, FileIdentity, Tokenizer } from '@kv/checkpoints';
import type { Decoder } from '../decoder/decoder.ts';
import type { Memory } from './memory.ts';

/** What a checkpoint says beside its weights. */
export interface ModelParts {
  readonly config: ModelConfig;
  readonly tokenizer: Tokenizer;
  /** A file beside the model, or nothing where there is none. @throws KvError for one that cannot be read */
  sidecar(name: string): Promise<Uint8Array | undefined>;
}

/** What a runtime starts from; weights are read while it starts and no longer. */
export interface ModelSource extends ModelParts {
  readonly weights: Weights;
  /** What the file's tensors come to, where there is a file. */
  readonly stored?: CheckpointSize;
}

export interface MemoryOptions {
  /** Rotary positions to use. @defaultValue the model's `maxPositions` */
  readonly window?: number | undefined;
  /** Where pieces run, beside a cache on the host. @defaultValue where the runtime keeps caches */
  readonly backend?: Backend | undefined;
  /** Once aborted, whatever runs over the memory ends within a layer. */
  readonly signal?: AbortSignal | undefined;
  /**
   * Most operations of a piece at once, where pieces run on the host: between two of its steps others get a turn, within
   * one nobody does. What states more is refused in one sentence, before it runs and before the event changes anything.
   *
   * @defaultValue no limit
   */
  readonly mostOperations?: number | undefined;
}

/** A model that is ready to be fed. */
export interface RunningModel {
  /** What runs it, where its runtime chooses by the model. @defaultValue the runtime's name */
  readonly engine?: string;
  /** An empty memory. */
  memory(options?: MemoryOptions): Memory;
  /**
   * Bytes that passes and pieces work in now, beside weights and what the ledgers of sequences count; all models of a
   * process share what pieces work in. Absent where a runtime does not say.
   */
  scratchBytes?(): number;
  /** Gives the weights back. */
  destroy(): void;
}

/** Where models run: weights go in, memories come out. */
export interface Runtime<M extends RunningModel = RunningModel> {
  /** What reports call it, such as `wasm`, `onnxruntime-node, f32, 2 threads` or `webgpu, ADAPTER`. */
  readonly name: string;
  start(source: ModelSource): Promise<M>;
}

/** A loaded language model. */
export interface Model extends RunningModel, ModelParts, FileIdentity {
  readonly name: string;
  /** The name of its runtime. */
  readonly engine: string;
  /** The checkpoint's chat template, if it has one. @throws KvError if it does not parse */
  readonly chatTemplate?: () => ChatTemplate | undefined;
  /** Bytes of the file's tensors, where there is a file. */
  readonly weightBytes?: number | undefined;
}

/** A model's input embeddings, as pieces read them; one object a model, so that what is measured once is found again. */
export const embeddingsOf = (
  { config, embed }: Pick<Decoder, 'config' | 'embed'>,
  tokenizer: Tokenizer,
): Embeddings => ({
  width: config.hidden,
  encode: (text) => tokenizer.encode(text, { special: false }).ids,
  rows: embed,
});
