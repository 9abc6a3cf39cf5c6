/** What several servers share; `createServer({ conversations })` of `@kv/server` takes it. Every call may fail. */
export interface SharedStore {
  /** That others read it: an answer ends once its conversation is here. */
  readonly shared: true;
  /** Returns the bytes of a key, or undefined if there are none. @throws KvError in one sentence, without passwords */
  get(key: string): Promise<Uint8Array | undefined>;
  put(key: string, bytes: Uint8Array): Promise<void>;
  delete(key: string): Promise<void>;
  /** Ends its connections. */
  close(): void;
}

/** Bounds of entries. */
export interface StoreBounds {
  readonly bytes: number;
  /** How long one stays that is not used. */
  readonly seconds: number;
}
