import { KvError } from '@kv/core';
import { object, show, type Fields } from './checkpoint/fields.ts';
import { addedTokens, checkLength, tokenId } from './tokenizer/added.ts';
import { bpeEncoder } from './tokenizer/bpe.ts';
import { normalizer } from './tokenizer/normalizer.ts';
import { literal, parts } from './tokenizer/parts.ts';
import { assemble } from './tokenizer/pipeline.ts';
import { postProcessor } from './tokenizer/post-processor.ts';
import { preTokenizer, SPACE } from './tokenizer/pre-tokenizer.ts';
import { tokenBytes } from './tokenizer/token-bytes.ts';

/**
 * Token ids with, for each, the `[start, end)` of its text in UTF-16 code units; empty for tokens that the text does
 * not hold.
 */
export interface Encoded {
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
  encode(text: string, options?: EncodeOptions): Encoded;
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

/**
 * A tokenizer from the contents of a `tokenizer.json`: byte-level or SentencePiece BPE. The library applies the merges;
 * added tokens, normalizers and prefixes are applied here, because the library does not tell where their text comes
 * from, and so are the regular expressions, because nobody's engine counts what they cost.
 * @throws KvError naming what is of another kind.
 */
export function createTokenizer(json: unknown, where: string): Tokenizer {
  const root = object(json, where, 'the tokenizer');
  const strange = Object.keys(root).find((name) => !FIELDS.includes(name));
  if (strange !== undefined)
    throw new KvError(where, `expected a tokenizer with the fields ${FIELDS.join(', ')}, got ${show(strange)}`);
  const { model, vocab } = bpe(root, where);
  const decoders = parts(root.decoder, 'decoders', where);
  const byteLevel = decoders.some(({ type }) => type === 'ByteLevel');
  if (!byteLevel && !decoders.some((part) => part.type === 'Metaspace' || literal(part) === SPACE))
    throw new KvError(
      where,
      `expected a byte-level or SentencePiece BPE tokenizer, got model ${show(model.type)}, decoder ${show(root.decoder)}`,
    );
  const { prepare, cut, byteLevel: inBytes } = preTokenizer(root.pre_tokenizer, where);
  const encode = readable(where, () => bpeEncoder(model, { cut, byteLevel: inBytes }));

  const toBytes = tokenBytes(byteLevel);
  const bytes: Uint8Array[] = [];
  for (const [token, id] of Object.entries(vocab))
    bytes[tokenId(id, token, where)] = toBytes(checkLength(token, where));
  const added = addedTokens(root.added_tokens, where);
  for (const { id, content } of added) bytes[id] = new TextEncoder().encode(content);
  const unknown =
    typeof model.unk_token === 'string' && Object.hasOwn(vocab, model.unk_token)
      ? (vocab[model.unk_token] as number)
      : undefined;

  return assemble(
    {
      bytes: Array.from(bytes, (token) => token ?? NOTHING),
      added,
      normalize: normalizer(root.normalizer, where),
      prepare,
      ids: (text, work) => readable(where, () => encode(text, work)),
      unknown:
        unknown === undefined
          ? undefined
          : { id: unknown, covers: model.fuse_unk === true ? 'run' : byteLevel ? 'byte' : 'character' },
      spaces: !byteLevel,
      dummyPrefix: decoders.some(dropsSpace),
      around: postProcessor(root.post_processor, where),
    },
    where,
  );
}

/** All that a tokenizer.json may have: one that is written otherwise would be left out in silence. */
const FIELDS: readonly string[] = [
  ...['version', 'truncation', 'padding', 'added_tokens'],
  ...['normalizer', 'pre_tokenizer', 'model', 'post_processor', 'decoder'],
];

/** What an id without a token stands for. */
const NOTHING = new Uint8Array(0);

/** The model and its vocabulary. @throws KvError unless it is a BPE whose merges are all there is to it. */
function bpe(root: Fields, where: string): { model: Fields; vocab: Fields } {
  const model = object(root.model, where, 'model');
  if (model.type !== 'BPE')
    throw new KvError(where, `expected a byte-level or SentencePiece BPE tokenizer, got model ${show(model.type)}`);
  const vocab = object(model.vocab, where, 'model.vocab');
  if (!Array.isArray(model.merges)) throw new KvError(where, `model.merges must be a list, got ${show(model.merges)}`);
  for (const name of ['dropout', 'continuing_subword_prefix', 'end_of_word_suffix'])
    if (model[name] != null && model[name] !== '' && model[name] !== 0)
      throw new KvError(where, `expected a BPE model without ${name}, got ${show(model[name])}`);
  return { model, vocab };
}

/** Whether a decoder takes a space off the beginning. */
function dropsSpace(part: Fields): boolean {
  if (part.type === 'Strip') return part.content === ' ' && part.start !== 0;
  return part.type === 'Metaspace' && part.prepend_scheme !== 'never' && part.add_prefix_space !== false;
}

/** The library fails in its own words on a file that it cannot use, sometimes only once there is text. */
function readable<T>(where: string, use: () => T): T {
  try {
    return use();
  } catch (cause) {
    if (KvError.is(cause)) throw cause;
    throw new KvError(
      where,
      `expected a tokenizer.json that @huggingface/tokenizers can use, got ${(cause as Error).message}`,
    );
  }
}
