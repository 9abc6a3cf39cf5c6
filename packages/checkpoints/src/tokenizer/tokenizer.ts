import { KvError } from '@kv/core';
import { object, show, type JsonFields } from '../read/fields.ts';
import { addedTokens, checkLength, isSpace, tokenId, type AddedToken } from './added-tokens.ts';
import { bpeEncoder } from './bpe.ts';
import { tokenDecoding } from './decoder.ts';
import { byTrust, type Encoder } from './encoder.ts';
import type { Tokenizer } from './interface.ts';
import { normalizer } from './normalizer.ts';
import { assemble } from './pipeline.ts';
import { postProcessor } from './post-processor.ts';
import { preTokenizer } from './pre-tokenizer.ts';
import { tokenBytes } from './token-bytes.ts';

/**
 * Makes a tokenizer from the contents of a `tokenizer.json`: byte-level or SentencePiece BPE. Every step is implemented
 * here, because the library does not report offsets, does not count its work, and cannot pause.
 * @param where name of the file, for errors
 * @param most ids that the model has: the text of an added token beyond them is ordinary text, and those beyond the
 *   vocabulary, with which models pad theirs, have no text. @defaultValue any
 * @throws KvError naming an unsupported component
 */
export function createTokenizer(json: unknown, where: string, most: number = Infinity): Tokenizer {
  const root = object(json, where, 'the tokenizer');
  const strange = Object.keys(root).find((name) => !FIELDS.includes(name));
  if (strange !== undefined)
    throw new KvError(where, `expected a tokenizer with the fields ${FIELDS.join(', ')}, got ${show(strange)}`);
  const all = addedTokens(root.added_tokens, where),
    added = all.filter(({ id }) => id < most),
    { model, vocab } = withoutBeyond(bpe(root, where), all, most);
  const { byteLevel, bytes: inParts, dummyPrefix } = tokenDecoding(root.decoder, where);
  const { prepare, cut, byteLevel: inBytes } = preTokenizer(root.pre_tokenizer, where);
  const words = { cut, byteLevel: inBytes },
    encode = bpeEncoder(model, vocab, words, where);

  const toBytes = tokenBytes(byteLevel, inParts);
  const names = new Array<string>(vocab.size);
  let last = -1;
  for (const [token, id] of vocab) {
    names[id] = checkLength(token, where);
    last = Math.max(last, id);
  }
  // the decoder of SentencePiece's pieces also writes added tokens, such as Gemma's runs of marked spaces
  const written = byteLevel ? (content: string) => new TextEncoder().encode(content) : toBytes,
    contents = new Map(added.map(({ id, content }) => [id, written(content)])),
    size = added.reduce((most, { id }) => Math.max(most, id + 1), last + 1);
  const bytes = (id: number): Uint8Array =>
    contents.get(id) ?? (names[id] === undefined ? NOTHING : toBytes(names[id]));
  const bare = without({ model, vocab }, new Set(added.flatMap((token) => (isSpace(token) ? [] : [token.id]))));
  const unknown = typeof model.unk_token === 'string' ? vocab.get(model.unk_token) : undefined;

  return assemble(
    {
      size,
      rows: most < Infinity ? Math.max(size, most) : size,
      bytes,
      added,
      normalize: normalizer(root.normalizer, where),
      prepare,
      ids: byTrust(encode, bare === undefined ? () => encode : encoderLater(bare.model, bare.vocab, words, where)),
      unknown:
        unknown === undefined
          ? undefined
          : { id: unknown, covers: model.fuse_unk === true ? 'run' : byteLevel ? 'byte' : 'character' },
      spaces: !byteLevel,
      dummyPrefix,
      around: postProcessor(root.post_processor, where),
    },
    where,
  );
}

/** Its closure holds the model that is read later; those of others hold none. */
const encoderLater =
  (...of: Parameters<typeof bpeEncoder>): (() => Encoder) =>
  () =>
    bpeEncoder(...of);

/** All supported fields of a tokenizer.json; any other would be ignored silently. */
const FIELDS: readonly string[] = [
  ...['version', 'truncation', 'padding', 'added_tokens'],
  ...['normalizer', 'pre_tokenizer', 'model', 'post_processor', 'decoder'],
];

/** Bytes of an id without a token. */
const NOTHING = new Uint8Array(0);

/** A model, and its vocabulary. */
interface Bpe {
  readonly model: JsonFields;
  readonly vocab: ReadonlyMap<string, number>;
}

/**
 * Returns the model and its vocabulary, which may be given as a map.
 * @throws KvError unless it is a BPE defined by its merges alone
 */
function bpe(root: JsonFields, where: string): Bpe {
  const model = object(root.model, where, 'model');
  // old files, such as GPT-2's, say no type: only a BPE has merges
  if (model.type !== 'BPE' && !(model.type === undefined && model.merges !== undefined))
    throw new KvError(where, `expected a byte-level or SentencePiece BPE tokenizer, got model ${show(model.type)}`);
  const ids =
    model.vocab instanceof Map
      ? (model.vocab as ReadonlyMap<string, unknown>)
      : new Map(Object.entries(object(model.vocab, where, 'model.vocab')));
  for (const [token, id] of ids) tokenId(id, token, where);
  if (!Array.isArray(model.merges)) throw new KvError(where, `model.merges must be a list, got ${show(model.merges)}`);
  for (const name of ['dropout', 'continuing_subword_prefix', 'end_of_word_suffix'])
    if (model[name] != null && model[name] !== '' && model[name] !== 0)
      throw new KvError(where, `expected a BPE model without ${name}, got ${show(model[name])}`);
  return { model, vocab: ids as ReadonlyMap<string, number> };
}

/** Returns the model without what forms an added token that the model has no row for, where its vocabulary lists one. */
function withoutBeyond(own: Bpe, added: readonly AddedToken[], most: number): Bpe {
  const beyond = new Set(added.flatMap(({ id }) => (id < most ? [] : [id]))),
    kept = without(own, beyond) ?? own;
  return beyond.size === 0 ? own : { ...kept, vocab: new Map([...kept.vocab].filter(([, id]) => !beyond.has(id))) };
}

/**
 * Returns the model without words and merges that would form one of these tokens; undefined where there are none, as in
 * nearly all models.
 */
function without({ model, vocab }: Bpe, ids: ReadonlySet<number>): Bpe | undefined {
  const names = new Set<string>();
  for (const [name, id] of vocab) if (ids.has(id)) names.add(name);
  if (names.size === 0) return undefined;
  const lengths = new Set([...names].map(({ length }) => length)),
    forms = (merge: string | readonly string[]): boolean =>
      typeof merge === 'string'
        ? lengths.has(merge.length - 1) && names.has(merge.replace(' ', ''))
        : names.has(merge.join(''));
  const all = model.merges as readonly (string | readonly string[])[],
    merges = all.filter((merge) => !forms(merge));
  const reached = model.ignore_merges === true || [...names].some((name) => [...name].length === 1);
  if (!reached && merges.length === all.length) return undefined;
  const unknown = model.unk_token;
  return {
    model: { ...model, merges },
    vocab: new Map([...vocab].filter(([name]) => name === unknown || !names.has(name))),
  };
}
