import { KvError } from '@kv/core';
import type { ConversationStore } from './conversation-store.ts';

/** How long a call may take, and how many bytes it must move in a second beyond that. */
const PATIENCE = { milliseconds: 2000, bytesPerSecond: 2 ** 24 };
/** Milliseconds for which a store is not asked again after it has failed. */
const REST = 5000;

/** A failure of a store whose first failure was told already. */
class StoreAway extends KvError {}

/** Returns what is told of failures: the first of a store that does not answer, and all others. */
export const unlessAway =
  (failed: (cause: unknown) => void) =>
  (cause: unknown): void => {
    if (!(cause instanceof StoreAway)) failed(cause);
  };

/** A store whose calls end in bounded time, and that is left alone for a while after it has failed. */
export class SteadyStore implements ConversationStore {
  readonly #store: ConversationStore;
  readonly #patience: typeof PATIENCE;
  readonly #rest: number;
  /** When it may be asked again; absent while it answers. */
  #again: number | undefined;

  constructor(store: ConversationStore, { patience = PATIENCE, rest = REST } = {}) {
    [this.#store, this.#patience, this.#rest] = [store, patience, rest];
  }

  get shared(): boolean {
    return this.#store.shared === true;
  }
  get held(): ConversationStore['held'] {
    return this.#store.held;
  }
  get(key: string): Promise<Uint8Array | undefined> {
    return this.#call(() => this.#store.get(key));
  }
  put(key: string, bytes: Uint8Array): Promise<void> {
    return this.#call(() => this.#store.put(key, bytes), bytes.length);
  }
  delete(key: string): Promise<void> {
    return this.#call(() => this.#store.delete(key));
  }

  /** @throws StoreAway, or the first failure of a store that has answered until then */
  async #call<T>(run: () => Promise<T>, bytes = 0): Promise<T> {
    if (this.#again !== undefined && performance.now() < this.#again)
      throw new StoreAway('conversations', 'expected the store to answer, it failed a moment ago');
    const most = this.#patience.milliseconds + (1000 * bytes) / this.#patience.bytesPerSecond;
    let timer: NodeJS.Timeout | undefined;
    try {
      const late = new Promise<never>((_, reject) => {
          timer = setTimeout(
            () => reject(new KvError('conversations', `expected the store to answer within ${Math.ceil(most)} ms`)),
            most,
          );
        }),
        result = await Promise.race([run(), late]);
      this.#again = undefined;
      return result;
    } catch (cause) {
      const told = this.#again !== undefined;
      this.#again = performance.now() + this.#rest;
      throw told ? new StoreAway('conversations', 'expected the store to answer, it still does not') : cause;
    } finally {
      clearTimeout(timer);
    }
  }
}
