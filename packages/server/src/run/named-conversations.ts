import { createHash } from 'node:crypto';
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
    const put = this.#store?.put(keyOf(id), new TextEncoder().encode(`${id}\n${text}`)).catch(this.#failed);
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
        `'${param}' is not known (any more), got ${JSON.stringify(id.slice(0, 80))}: send the whole conversation as 'input' instead, and go on from the id of its answer`,
        { status: 404, param, code: 'previous_response_not_found' },
      );
    this.#keep(id, text);
    return JSON.parse(text) as T;
  }

  forget(id: string): void {
    this.#characters -= this.#texts.get(id)?.length ?? 0;
    this.#texts.delete(id);
    this.#store?.delete(keyOf(id)).catch(this.#failed);
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

  async #stored(id: string): Promise<string | undefined> {
    try {
      const bytes = await this.#store?.get(keyOf(id)),
        [of, text] = bytes ? split(new TextDecoder('utf-8', { fatal: true }).decode(bytes)) : [];
      if (of !== id || text === undefined) return undefined;
      JSON.parse(text);
      return text;
    } catch (cause) {
      this.#failed(cause);
      return undefined;
    }
  }
}

const split = (text: string): readonly [string, string] => {
  const at = text.indexOf('\n');
  return [text.slice(0, at), text.slice(at + 1)];
};

/** The key of an id, which a client chooses. */
const keyOf = (id: string): string => createHash('sha256').update(`response ${id}`).digest('hex');
