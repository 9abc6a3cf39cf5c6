import { Tokenizer as Engine } from '@huggingface/tokenizers';
import { KvError } from '@kv/core';
import { tokenOffsets } from './tokenizer/offsets.ts';
import { tokenBytes } from './tokenizer/token-bytes.ts';

/** Token ids with, for each, the `[start, end)` of its text in UTF-16 code units; empty for tokens that the text does not hold. */
export interface Encoded {
  readonly ids: readonly number[];
  readonly offsets: readonly (readonly [number, number])[];
}

/** Decodes a growing sequence. */
export interface StreamDecoder {
  /** The text that is now certain: never half a character. */
  push(id: number): string;
  /** What is left at the end; an unfinished character becomes U+FFFD. */
  end(): string;
}

/** Text to ids and back. */
export interface Tokenizer {
  /** One more than the largest id. */
  readonly size: number;
  /**
   * Ids and offsets. With `special` (default true) the tokenizer's own post-processor may add tokens; nothing else ever does.
   * A token that holds part of a multi-byte character covers that character.
   */
  encode(text: string, options?: { readonly special?: boolean }): Encoded;
  /** The text of the ids; special tokens are left out unless `special`. @throws KvError for an id outside the vocabulary. */
  decode(ids: Iterable<number>, options?: { readonly special?: boolean }): string;
  /** The UTF-8 bytes of a token; a special token's are its name. @throws KvError for an id outside the vocabulary. */
  bytesOf(id: number): Uint8Array;
  /** `decode`, id by id. */
  streamDecoder(options?: { readonly special?: boolean }): StreamDecoder;
}

/** A tokenizer from the contents of a `tokenizer.json`. @throws KvError naming what is not a byte-level or SentencePiece BPE tokenizer. */
export function createTokenizer(json: unknown, where: string): Tokenizer {
  const { bytes, special: specials, dummyPrefix } = tokenBytes(json, where);
  const engine = readable(where, () => new Engine(json as object, {}));
  const bytesOf = (id: number): Uint8Array => {
    const token = bytes[id];
    if (token === undefined) throw new KvError(where, `a token id must be an integer from 0 to ${bytes.length - 1}, got ${id}`);
    return token;
  };
  const encodeIds = (text: string, special: boolean): number[] => readable(where, () => engine.encode(text, { add_special_tokens: special }).ids);
  const added = addedTokens(encodeIds);

  const streamDecoder: Tokenizer['streamDecoder'] = ({ special = false } = {}) => {
    const decoder = new TextDecoder('utf-8', { ignoreBOM: true });
    let first = dummyPrefix;
    return {
      push(id) {
        const token = bytesOf(id);
        if (specials.has(id) && !special) return '';
        const start = first && token[0] === 32 ? 1 : 0;
        first = false;
        return decoder.decode(token.subarray(start), { stream: true });
      },
      end: () => decoder.decode(),
    };
  };

  return {
    size: bytes.length,
    bytesOf,
    encode(text, { special = true } = {}) {
      const ids = encodeIds(text, false);
      const offsets = tokenOffsets(text, ids.map(bytesOf));
      if (!special) return { ids, offsets };
      const empty = (at: number) => (): [number, number] => [at, at];
      return {
        ids: [...added.before, ...ids, ...added.after],
        offsets: [...added.before.map(empty(0)), ...offsets, ...added.after.map(empty(text.length))],
      };
    },
    decode(ids, options) {
      const stream = streamDecoder(options);
      let text = '';
      for (const id of ids) text += stream.push(id);
      return text + stream.end();
    },
    streamDecoder,
  };
}

/** The library fails in its own words on a file that it cannot use, sometimes only once there is text. */
function readable<T>(where: string, use: () => T): T {
  try {
    return use();
  } catch (cause) {
    throw new KvError(where, `expected a tokenizer.json that @huggingface/tokenizers can use, got ${(cause as Error).message}`);
  }
}

/** What the post-processor puts around a text, seen on one that has tokens of its own. */
function addedTokens(encode: (text: string, special: boolean) => number[]): { before: number[]; after: number[] } {
  const probe = ['a', '0', ' '].find((text) => encode(text, false).length > 0) ?? '';
  const own = encode(probe, false);
  const all = encode(probe, true);
  const at = all.findIndex((_, start) => own.every((id, i) => all[start + i] === id));
  return { before: all.slice(0, Math.max(0, at)), after: all.slice(Math.max(0, at) + own.length) };
}
