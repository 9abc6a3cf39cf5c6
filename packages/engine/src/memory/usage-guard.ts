import { KvError } from '@kv/core';
import { isOverwritten, outOfMemory } from '@kv/core/engine';
import { pauser, yieldToEvents } from '../yield-to-events.ts';
import type { FeedOptions } from './feed.ts';
import { expectModelAlive, type MemoryModel } from './model-parts.ts';

/**
 * Guards what is changed by calls that await: a change that failed halfway makes it unusable, and it is freed when the
 * calls in progress have ended.
 */
export class UsageGuard {
  /** Yields to the event loop, if it was held for long. */
  readonly pause: () => Promise<void> = pauser();
  readonly #signal: AbortSignal | undefined;
  /** The change that failed halfway, and why. */
  #broken: string | undefined;
  /** Frees what is guarded; set once it was destroyed. */
  #free: (() => void) | undefined;
  /** Calls in progress. */
  #uses = 0;

  readonly #model: MemoryModel;

  /**
   * @param model whose weights are read
   * @param signal once aborted, `between` throws
   */
  constructor(model: MemoryModel, signal: AbortSignal | undefined) {
    [this.#model, this.#signal] = [model, signal];
  }

  /** Whether `destroy` was called. */
  get destroyed(): boolean {
    return this.#free !== undefined;
  }

  /** @throws KvError once it was destroyed, or a change failed halfway */
  expectUsable(): void {
    this.expectAlive();
    if (this.#broken !== undefined)
      throw new KvError('sequence', `is unusable: it failed during ${this.#broken}; start a new one`);
  }

  /** @throws KvError once it, or its model, was destroyed */
  expectAlive(): void {
    expectModelAlive(this.#model);
    if (this.destroyed) throw new KvError('sequence', 'was destroyed: start a new one');
  }

  /** Runs a change that must complete: if it throws, what is guarded is unusable. */
  change<T>(what: string, run: () => Promise<T>): Promise<T> {
    return this.using(what, run, () => true);
  }

  /** Runs a call that changes nothing by itself: if it throws, what is guarded stays usable unless `breaks` the error. */
  async using<T>(what: string, run: () => Promise<T>, breaks: (error: unknown) => boolean = isOverwritten): Promise<T> {
    this.#uses++;
    try {
      return await run();
    } catch (cause) {
      const error = outOfMemory(cause);
      if (breaks(cause)) this.#broken ??= `${what}: ${error instanceof Error ? error.message : String(error)}`;
      throw error;
    } finally {
      if (--this.#uses === 0) this.#free?.();
    }
  }

  /**
   * Called between two layers of a block. In prefill, yields to the event loop if a signal may abort the block, or if
   * the loop was held for long.
   * @throws the abort's reason, and KvError once destroyed
   */
  async between({ phase, signal }: Pick<FeedOptions, 'phase' | 'signal'>): Promise<void> {
    if (phase === 'prefill') {
      await yieldToEvents(signal ?? this.#signal);
      await this.pause();
    }
    this.#signal?.throwIfAborted();
    signal?.throwIfAborted();
    this.expectAlive();
  }

  /** Frees what is guarded, once the calls in progress have ended. Idempotent. */
  destroy(free: () => void): void {
    if (this.destroyed) return;
    this.#free = free;
    if (this.#uses === 0) free();
  }
}
