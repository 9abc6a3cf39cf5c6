/**
 * Token ids and, for each, the `[start, end)` range of its text in UTF-16 code units; empty for tokens that are not in
 * the text.
 */
export interface TokenEncoding {
  /** Token ids. */
  readonly ids: readonly number[];
  /** `[start, end)` of each id's text. */
  readonly offsets: readonly (readonly [number, number])[];
}

/** Options of encoding. */
export interface EncodeOptions {
  /** Whether the tokenizer's own post-processor may add tokens; nothing else ever does. @defaultValue true */
  readonly special?: boolean;
  /**
   * Whether a special token that is written in the text becomes its id. Set false for untrusted text, so
   * that it stays text.
   * @defaultValue true
   */
  readonly parse?: boolean;
  /**
   * Untrusted ranges `[from, to)` of the text, in UTF-16 units and in order; what they contain stays text. No added
   * token, special or not, is matched on a character of them, except white-space tokens. Text that holds none of those
   * tokens encodes to the same ids with and without this.
   * @defaultValue none
   */
  readonly untrusted?: readonly (readonly [number, number])[];
}

/** Options of decoding. */
export interface DecoderOptions {
  /**
   * Whether special tokens are written out as their names; a list of names writes out those alone.
   * @defaultValue false
   */
  readonly special?: boolean | readonly string[];
}

/** Decodes a growing sequence of ids. */
export interface StreamDecoder {
  /** Adds an id and returns the text that is now certain: never half a character. */
  push(id: number): string;
  /** Number of bytes so far of an incomplete character. */
  readonly pending: number;
  /** Returns the remaining text; an incomplete character becomes U+FFFD. */
  end(): string;
  /**
   * Returns an independent decoder in the same state, even in the middle of a character.
   * @param options what it writes out; by default what this decoder does
   */
  fork(options?: DecoderOptions): StreamDecoder;
}

/** Converts text to ids and back. */
export interface Tokenizer {
  /** Largest id plus one. */
  readonly size: number;
  /** Special tokens by name. */
  readonly specials: ReadonlyMap<string, number>;
  /** Ids of the beginning and end of a text, as a GGUF file names them; absent for a tokenizer.json. */
  readonly bosId?: number;
  readonly eosId?: number;
  /**
   * Returns ids and offsets. A token covers every character that its bytes come from: all of a multi-byte character of
   * which it holds a part, and all that a normalizer joined into one. Starts and ends never decrease.
   */
  encode(text: string, options?: EncodeOptions): TokenEncoding;
  /**
   * Yields `encode(text, options).ids` in parts, each after a bounded number of steps, so that a long text can be
   * interleaved with other work, or abandoned. A part may be empty. All state is in the generator.
   */
  encodeParts(text: string, options?: EncodeOptions): Generator<readonly number[], void>;
  /**
   * Returns the text of the ids; special tokens are left out unless `special`.
   * @throws KvError for an id outside the model's vocabulary; one with which the model pads it has no text
   */
  decode(ids: Iterable<number>, options?: DecoderOptions): string;
  /**
   * Returns the UTF-8 bytes of a token as the decoder writes it; those of a special token are its name.
   * @throws KvError for an id outside the model's vocabulary
   */
  bytesOf(id: number): Uint8Array;
  /** Returns a decoder that decodes id by id. */
  streamDecoder(options?: DecoderOptions): StreamDecoder;
}
