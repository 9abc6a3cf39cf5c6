import { KvError } from '@kv/core';
import type { Backend, Embeddings } from '@kv/core';
import type { CacheForm } from '../cache/form.ts';
import type { ModelConfig, Tokenizer } from '@kv/checkpoints';

/** The parts of a checkpoint other than its weights. */
export interface ModelParts {
  readonly config: ModelConfig;
  readonly tokenizer: Tokenizer;
  /** Reads a file of the model's folder, or undefined if there is none. @throws KvError for one that cannot be read */
  sidecar(name: string): Promise<Uint8Array | undefined>;
}

/** What caches read of their model, in addition to its decoder. */
export interface MemoryModel extends ModelParts {
  readonly embeddings: Embeddings;
}

/** Models whose weights were freed. */
const ended = new WeakSet<object>();
/** Notes that a model's weights are freed, so that what is left of it refuses to run; whether they were not before. */
export function endModel(model: MemoryModel): boolean {
  const first = !ended.has(model);
  ended.add(model);
  return first;
}
/** @throws KvError once the model was destroyed */
export function expectModelAlive(model: MemoryModel): void {
  if (ended.has(model)) throw new KvError('model', 'was destroyed: load it again');
}

/** Options of the memory of one sequence. */
export interface MemoryOptions {
  /** Rotary positions to use. @defaultValue the model's `maxPositions` */
  readonly window?: number | undefined;
  /** The backend that pieces run on when the cache is on the host. @defaultValue where the runtime keeps caches */
  readonly backend?: Backend | undefined;
  /** How keys and values are stored; one of the model's `cacheForms`. @defaultValue the model's `cacheForm` */
  readonly form?: CacheForm | undefined;
  /**
   * Snapshots to hold of the states that layers without slots carry, kept at the ends of a prompt's parts: a copy of
   * fewer tokens can start at these. @defaultValue 0
   */
  readonly snapshots?: number | undefined;
  /** Once aborted, any pass over the memory ends within a layer. */
  readonly signal?: AbortSignal | undefined;
  /**
   * The most operations of a piece in one step, where pieces run on the host: the event loop gets a turn between two of
   * its steps, not within one. A piece that declares more is refused before it runs and before the event changes
   * anything; where layers evict as a prompt passes, tokens are in some of them by then, and the sequence is unusable.
   *
   * @defaultValue no limit
   */
  readonly mostOperations?: number | undefined;
}
