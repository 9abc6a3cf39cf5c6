import { KvError } from '@kv/core';
import { object, show, type Fields } from '../checkpoint/fields.ts';

/** What the bytes of every token are, and how text becomes them. */
export interface TokenBytes {
  /** UTF-8 bytes of each token id; ids without a token are empty. */
  readonly bytes: readonly Uint8Array[];
  /** Ids that are no text: added tokens marked special. */
  readonly special: ReadonlySet<number>;
  /** Whether text starts with a space that nobody wrote (SentencePiece's dummy prefix), which decoding takes off. */
  readonly dummyPrefix: boolean;
}

/**
 * The bytes of each token of a `tokenizer.json`: GPT-2's byte-level alphabet, or SentencePiece's U+2581 spaces and `<0xNN>` bytes.
 * @throws KvError if the tokenizer changes text before it splits it (then offsets would not be exact), or is of another kind.
 */
export function tokenBytes(json: unknown, where: string): TokenBytes {
  const root = object(json, where, 'the tokenizer');
  const model = object(root.model, where, 'model');
  const vocab = object(model.vocab, where, 'model.vocab');
  if (!Array.isArray(model.merges)) throw new KvError(where, `model.merges must be a list, got ${show(model.merges)}`);
  const byteLevel = parts(root.decoder, 'decoders').some((part) => part.type === 'ByteLevel');
  const spaces = parts(root.decoder, 'decoders').some((part) => part.type === 'Metaspace' || pattern(part) === '\u2581');
  if (model.type !== 'BPE' || !(byteLevel || spaces))
    throw new KvError(where, `expected a byte-level or SentencePiece BPE tokenizer, got model ${show(model.type)}, decoder ${show(root.decoder)}`);
  for (const part of parts(root.normalizer, 'normalizers'))
    if (part.type !== 'Prepend' && pattern(part) !== ' ')
      throw new KvError(where, `expected a tokenizer that leaves text as it is, got the normalizer ${show(part)}`);
  const encoder = new TextEncoder();
  const alphabet = byteAlphabet();
  const plain = (token: string): Uint8Array => {
    if (byteLevel) return Uint8Array.from([...token].flatMap((char) => alphabet.get(char) ?? [...encoder.encode(char)]));
    const byte = /^<0x([0-9A-F]{2})>$/.exec(token)?.[1];
    return byte === undefined ? encoder.encode(token.replaceAll('\u2581', ' ')) : Uint8Array.of(Number.parseInt(byte, 16));
  };
  const bytes: Uint8Array[] = [];
  for (const [token, id] of Object.entries(vocab)) bytes[checkId(id, token, where)] = plain(token);
  const special = new Set<number>();
  for (const entry of Array.isArray(root.added_tokens) ? (root.added_tokens as unknown[]) : []) {
    const added = object(entry, where, 'added_tokens[]');
    const id = checkId(added.id, added.content, where);
    bytes[id] = encoder.encode(String(added.content));
    if (added.special === true) special.add(id);
  }
  const dummyPrefix = parts(root.decoder, 'decoders').some((part) => part.type === 'Strip' || part.type === 'Metaspace');
  return { bytes: Array.from(bytes, (b) => b ?? new Uint8Array(0)), special, dummyPrefix };
}

/** A component and, for a `Sequence`, its parts. */
function parts(component: unknown, list: string): readonly Fields[] {
  if (component == null) return [];
  const fields = component as Fields;
  return Array.isArray(fields[list]) ? (fields[list] as Fields[]) : [fields];
}

function pattern(part: Fields): unknown {
  return part.type === 'Replace' ? (part.pattern as Fields | undefined)?.String : undefined;
}

function checkId(id: unknown, token: unknown, where: string): number {
  if (Number.isInteger(id) && (id as number) >= 0 && (id as number) < 2 ** 24) return id as number;
  throw new KvError(where, `the id of token ${show(token)} must be an integer of at least 0, got ${show(id)}`);
}

/** GPT-2's printable stand-ins: bytes that print as they are keep their character, the others follow from U+0100. */
function byteAlphabet(): ReadonlyMap<string, number> {
  const prints = (byte: number): boolean => (byte > 32 && byte < 127) || (byte > 160 && byte !== 173);
  const alphabet = new Map<string, number>();
  let next = 256;
  for (let byte = 0; byte < 256; byte++) alphabet.set(String.fromCharCode(prints(byte) ? byte : next++), byte);
  return alphabet;
}
