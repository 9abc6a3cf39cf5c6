/**
 * Where conversations lie outside of memory: the folder of one server, or what several share. Keys are 64 hexadecimal
 * digits that follow from a request alone, so that any server with the same model and policy finds what another put
 * there. What comes back is checked; a store may forget anything at any time.
 */
export interface ConversationStore {
  /** Returns the bytes of a key, or undefined if there are none. */
  get(key: string): Promise<Uint8Array | undefined>;
  put(key: string, bytes: Uint8Array): Promise<void>;
  delete(key: string): Promise<void>;
  /** Whether other servers read it too: an answer then ends once its conversation is here, or could not be put here. */
  readonly shared?: boolean;
  /** Bytes and entries that it holds; absent where it does not know. */
  readonly held?: { readonly bytes: number; readonly entries: number } | undefined;
}
