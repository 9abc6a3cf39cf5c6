import { createHash } from 'node:crypto';
import { KvError } from '@kv/core';
import { Refusal } from '../protocol/refusal.ts';
import type { ConversationStore } from './conversation-store.ts';
import { unlessAway } from './steady-store.ts';

/** The most characters of all conversations that are remembered by an id. */
const MOST = 2 ** 24;

/**
 * What conversations were, by the ids of their answers, for protocols whose clients send an id instead of the messages.
 * The least recently used are forgotten first; a store remembers them longer, and for other servers. What a cache
 * holds of them is found by the messages, as for any request.
 */
export class NamedConversations<T> {
  readonly #texts = new Map<string, string>();
  readonly #store: ConversationStore | undefined;
  readonly #failed: (cause: unknown) => void;
  /** What the store does for each id, in its order. */
  readonly #stores = new Map<string, Promise<void>>();
  #characters = 0;

  constructor(store?: ConversationStore, failed: (cause: unknown) => void = () => {}) {
    [this.#store, this.#failed] = [store, unlessAway(failed)];
  }

  /**
   * Remembers a conversation, which JSON can hold, by an id. Returns what settles once other servers know it too, or
   * their store has failed; undefined where there are none.
   */
  name(id: string, conversation: T): Promise<void> | undefined {
    const text = JSON.stringify(conversation);
    this.#keep(id, text);
    const put = this.#inTurn(id, (store) =>
      store.put(keyOf(id), new TextEncoder().encode(`${id}\n${sealOf(text)}\n${text}`)),
    );
    return this.#store?.shared ? put : undefined;
  }

  /**
   * Returns the conversation of an id. @param param what the client calls the id
   * @throws Refusal with 404 if it is not remembered (any more)
   */
  async named(id: string, param = 'previous_response_id'): Promise<T> {
    const text = this.#texts.get(id) ?? (await this.#stored(id));
    if (text === undefined)
      throw new Refusal(
        `'${param}' is not known (any more), got ${JSON.stringify(id.slice(0, 80))}: ${
          param === 'previous_response_id'
            ? "send the whole conversation as 'input' instead, and go on from the id of its answer"
            : 'the server forgets those that were used least recently, and keeps none with store: false'
        }`,
        { status: 404, param, code: 'previous_response_not_found' },
      );
    this.#keep(id, text);
    return JSON.parse(text) as T;
  }

  /** Forgets a conversation; returns what settles once the store has too. */
  async forget(id: string): Promise<void> {
    this.#characters -= this.#texts.get(id)?.length ?? 0;
    this.#texts.delete(id);
    await this.#inTurn(id, (store) => store.delete(keyOf(id)));
  }

  /** Settles once the store has done all that was asked of it. */
  async settled(): Promise<void> {
    await Promise.all(this.#stores.values());
  }

  /** Does something in the store once what was asked before of this id is done. */
  async #inTurn(id: string, work: (store: ConversationStore) => Promise<unknown>): Promise<void> {
    const store = this.#store;
    if (!store) return;
    const done = (this.#stores.get(id) ?? Promise.resolve()).then(async () => {
      await work(store).catch(this.#failed);
    });
    this.#stores.set(id, done);
    await done;
    if (this.#stores.get(id) === done) this.#stores.delete(id);
  }

  #keep(id: string, text: string): void {
    this.#characters += text.length - (this.#texts.get(id)?.length ?? 0);
    this.#texts.delete(id);
    this.#texts.set(id, text);
    for (const [oldest, { length }] of this.#texts) {
      if (this.#characters <= MOST || oldest === id) return;
      this.#texts.delete(oldest);
      this.#characters -= length;
    }
  }

  /** Returns what the store has under an id; what is damaged is deleted, and told. */
  async #stored(id: string): Promise<string | undefined> {
    try {
      await this.#stores.get(id);
      const bytes = await this.#store?.get(keyOf(id));
      if (!bytes) return undefined;
      const [of, seal, ...rest] = new TextDecoder().decode(bytes).split('\n'),
        text = rest.join('\n');
      if (of === id && seal === sealOf(text)) return text;
      this.#failed(new KvError('conversations', `a response of the store is damaged, and deleted: ${id.slice(0, 80)}`));
      await this.#store?.delete(keyOf(id));
    } catch (cause) {
      this.#failed(cause);
    }
    return undefined;
  }
}

/** What a text is told by: a store may damage it. */
const sealOf = (text: string): string => createHash('sha256').update(text).digest('hex');

/** The key of an id, which a client chooses. */
const keyOf = (id: string): string => createHash('sha256').update(`response ${id}`).digest('hex');
