/**
 * Token ids with, for each, the `[start, end)` of its text in UTF-16 code units; empty for tokens that the text does
 * not hold.
 */
export interface TokenEncoding {
  readonly ids: readonly number[];
  readonly offsets: readonly (readonly [number, number])[];
}

/** How a text becomes ids. */
export interface EncodeOptions {
  /** Whether the tokenizer's own post-processor may add tokens (default true); nothing else ever does. */
  readonly special?: boolean;
  /**
   * Whether a special token that is written in the text becomes its id (default true). Set false for text that is not
   * trusted: it stays text.
   */
  readonly parse?: boolean;
  /**
   * `[from, to)` of the text, in UTF-16 units and in order, that somebody else wrote: whatever stands there stays text.
   * No added token, special or not, is read from a character of it; white space that is a token of its own is.
   * Harmless text has the ids that it has without this.
   */
  readonly untrusted?: readonly (readonly [number, number])[];
}

/** Decodes a growing sequence. */
export interface StreamDecoder {
  /** The text that is now certain: never half a character. */
  push(id: number): string;
  /** Bytes so far of a character that is not complete yet. */
  readonly pending: number;
  /** What is left at the end; an unfinished character becomes U+FFFD. */
  end(): string;
  /** A decoder of its own that goes on from here, in the middle of a character too. */
  fork(): StreamDecoder;
}

/** Text to ids and back. */
export interface Tokenizer {
  /** One more than the largest id. */
  readonly size: number;
  /** Special tokens by name. */
  readonly specials: ReadonlyMap<string, number>;
  /** The ids that a GGUF file names for the beginning of a text and for its end; a tokenizer.json names none. */
  readonly bosId?: number;
  readonly eosId?: number;
  /**
   * Ids and offsets. A token covers every character of the text that its bytes come from: all of a multi-byte character
   * of which it holds a part,
   * and all that a normalizer joined into one. Starts and ends never go back.
   */
  encode(text: string, options?: EncodeOptions): TokenEncoding;
  /**
   * `encode(text, options).ids` in parts, each after a bounded number of steps, so that a long text may be read beside
   * other things, or given up. A part may be empty. What there is of one text stands in one generator: nothing else is
   * kept.
   */
  encodeParts(text: string, options?: EncodeOptions): Generator<readonly number[], void>;
  /**
   * The text of the ids; special tokens are left out unless `special`. @throws KvError for an id outside the
   * vocabulary.
   */
  decode(ids: Iterable<number>, options?: { readonly special?: boolean }): string;
  /** The UTF-8 bytes of a token; a special token's are its name. @throws KvError for an id outside the vocabulary. */
  bytesOf(id: number): Uint8Array;
  /** `decode`, id by id. */
  streamDecoder(options?: { readonly special?: boolean }): StreamDecoder;
}
