import { KvError } from '@kv/core';
import { show, type JsonFields } from '../read/fields.ts';
import { createTokenizer } from './tokenizer.ts';
import type { Tokenizer } from './interface.ts';
import { checkLength, ENDS, isSpace, MARKS, type AddedToken } from './added-tokens.ts';
import { asItIs } from './aligned.ts';
import { byTrust, type Encoder } from './encoder.ts';
import { WORDS } from './gguf-words.ts';
import { prepend, replaceAll } from './normalizer.ts';
import { assemble } from './pipeline.ts';
import { SPACE, tokenBytes } from './token-bytes.ts';
import { spmEncoder } from './spm.ts';

/** Values of `tokenizer.ggml.token_type`. */
const NORMAL = 1;
const UNKNOWN = 2;
const CONTROL = 3;
const USER = 4;
const BYTE = 6;

/** How marks of chats are written; converters give them type USER where an answer shall show them. */
const MARK = /^<[|｜].*>$|^<.*[|｜]>$/su;

/** A validated GGUF vocabulary. */
interface Vocabulary {
  readonly tokens: readonly string[];
  readonly types: ArrayLike<number>;
  readonly added: readonly AddedToken[];
  readonly ids: { readonly bosId?: number; readonly eosId?: number };
  /**
   * Returns the tokens around a text; `addBos` applies if the file does not say whether the beginning token is added.
   */
  readonly around: (addBos: boolean) => { before: number[]; after: number[] };
}

/**
 * Makes a tokenizer from a GGUF file's `tokenizer.ggml.*` metadata: model `gpt2` (byte-level BPE), `llama`
 * (SentencePiece) or `gemma4` (BPE of SentencePiece's tokens). Control tokens are special, and so are marks of chats whatever
 * their type; other user-defined tokens are matched in any text. As in llama.cpp, tokens without types are normal, pieces
 * without scores have 0, and an id beyond the vocabulary is none.
 * @param where name of the file, for errors
 * @throws KvError naming the key that is missing or wrong, or the unknown model or `pre`
 */
export function ggufTokenizer(metadata: ReadonlyMap<string, unknown>, where: string): Tokenizer {
  const model = metadata.get('tokenizer.ggml.model');
  if (model === 'gpt2') return fromJson(byteLevelJson, metadata, where);
  if (model === 'llama') return sentencePiece(metadata, where);
  if (model === 'gemma4') return fromJson(mergedPiecesJson, metadata, where);
  throw new KvError(where, `tokenizer.ggml.model must be "gpt2", "llama" or "gemma4", got ${show(model)}`);
}

/**
 * Returns the same tokenizer as the contents of a tokenizer.json, with every token in its vocabulary.
 * @throws KvError as `ggufTokenizer` does
 */
export function ggufTokenizerJson(metadata: ReadonlyMap<string, unknown>, where: string): JsonFields {
  const kind = metadata.get('tokenizer.ggml.model'),
    make = kind === 'llama' ? sentencePieceJson : kind === 'gemma4' ? mergedPiecesJson : byteLevelJson,
    { model, ...json } = make(metadata, where),
    { tokens } = vocabulary(metadata, where);
  return {
    version: '1.0',
    truncation: null,
    padding: null,
    ...json,
    model: { ...(model as JsonFields), vocab: Object.fromEntries(tokens.map((token, id) => [token, id])) },
  };
}

/** Makes a tokenizer of what a file's metadata says in the form of a tokenizer.json. */
const fromJson = (json: typeof byteLevelJson, metadata: ReadonlyMap<string, unknown>, where: string): Tokenizer => ({
  ...createTokenizer(json(metadata, where), where),
  ...endsOf(metadata, where),
});

function byteLevelJson(metadata: ReadonlyMap<string, unknown>, where: string): JsonFields {
  const { tokens, types, added, around } = vocabulary(metadata, where);
  const pre = metadata.get('tokenizer.ggml.pre') ?? 'default';
  const words = WORDS.get(pre as string);
  if (words === undefined)
    throw new KvError(
      where,
      `tokenizer.ggml.pre must be one of the ${WORDS.size} names of llama.cpp that are known here, such as "llama-bpe" or "qwen2", got ${show(pre)}`,
    );
  return {
    added_tokens: added.map(addedJson),
    normalizer: words.normalizer ?? null,
    pre_tokenizer: {
      type: 'Sequence',
      pretokenizers: [...words.cuts, { type: 'ByteLevel', add_prefix_space: false, use_regex: false }],
    },
    post_processor: template(around(words.addBos ?? false), tokens),
    decoder: { type: 'ByteLevel' },
    model: {
      type: 'BPE',
      ignore_merges: words.ignoreMerges ?? false,
      vocab: textTokens(tokens, types),
      merges: mergesOf(metadata, where),
    },
  };
}

/** Returns a file's merges, each the two tokens that it joins. */
function mergesOf(metadata: ReadonlyMap<string, unknown>, where: string): readonly (string | readonly string[])[] {
  const merges = list(
    metadata,
    'tokenizer.ggml.merges',
    where,
    (merge) => typeof merge === 'string' && merge.includes(' '),
  ) as readonly string[];
  return merges.map(pairOf);
}

/** How pieces of SentencePiece mark spaces, and what makes text of them. */
const markSpaces = { type: 'Replace', pattern: { String: ' ' }, content: SPACE },
  piecesToText = [
    { type: 'Replace', pattern: { String: SPACE }, content: ' ' },
    { type: 'ByteFallback' },
    { type: 'Fuse' },
  ];

/**
 * Gemma 4's: SentencePiece's tokens, with marked spaces and bytes for what they lack, joined by merges. As in its
 * tokenizer.json a text is one word; llama.cpp cuts it at line breaks, which no merge crosses but among themselves.
 */
function mergedPiecesJson(metadata: ReadonlyMap<string, unknown>, where: string): JsonFields {
  const { tokens, types, added, around } = vocabulary(metadata, where),
    prefix = flag(metadata, 'add_space_prefix', where) ?? false;
  if (prefix) throw new KvError(where, 'tokenizer.ggml.add_space_prefix must be false or absent, got true');
  return {
    added_tokens: added.map(addedJson),
    normalizer: markSpaces,
    pre_tokenizer: null,
    post_processor: template(around(true), tokens),
    decoder: { type: 'Sequence', decoders: piecesToText },
    model: {
      type: 'BPE',
      unk_token: tokens[id(metadata, 'unknown', tokens.length, where) ?? 0],
      fuse_unk: true,
      byte_fallback: true,
      vocab: textTokens(tokens, types),
      merges: mergesOf(metadata, where),
    },
  };
}

/** Returns the tokens that text is made of, with their ids. */
function textTokens(tokens: readonly string[], types: ArrayLike<number>): ReadonlyMap<string, number> {
  const ids = new Map<string, number>();
  for (let id = 0; id < tokens.length; id++) if (types[id] !== CONTROL) ids.set(tokens[id], id);
  return ids;
}

/** Returns a merge as tokenizer.json has it: text where it has one space, else a pair. */
function pairOf(merge: string): string | readonly [string, string] {
  const cut = merge.indexOf(' ', 1);
  return merge.indexOf(' ') === merge.lastIndexOf(' ') ? merge : [merge.slice(0, cut), merge.slice(cut + 1)];
}

const addedJson = ({ singleWord, ...token }: AddedToken): JsonFields => ({ ...token, single_word: singleWord });

/** Returns a post-processor that adds tokens around every text. */
function template(
  { before, after }: { readonly before: readonly number[]; readonly after: readonly number[] },
  tokens: readonly string[],
): JsonFields {
  const single = [...before.map(name), { Sequence: { id: 'A', type_id: 0 } }, ...after.map(name)];
  const special = Object.fromEntries(
    [...before, ...after].map((id) => [String(id), { id: String(id), ids: [id], tokens: [tokens[id]] }]),
  );
  return { type: 'TemplateProcessing', single, pair: single, special_tokens: special };
}

function name(id: number): JsonFields {
  return { SpecialToken: { id: String(id), type_id: 0 } };
}

function sentencePiece(metadata: ReadonlyMap<string, unknown>, where: string): Tokenizer {
  const { tokens, types, added, ids, around } = vocabulary(metadata, where);
  const scores = scoresOf(metadata, tokens.length, where);
  const unknown = id(metadata, 'unknown', tokens.length, where) ?? 0;
  const prefix = flag(metadata, 'add_space_prefix', where) ?? true;
  const toBytes = tokenBytes(false, true),
    toText = tokenBytes(false, false);
  const encoder = new TextEncoder();
  const byteIds = new Map(
    tokens.flatMap((token, at) => (types[at] === BYTE ? [[toBytes(token)[0] as number, at] as const] : [])),
  );
  // runs of spaces, which Gemma's files store as spaces, are also pieces of marked spaces
  const pieces = new Map(piecesOf(tokens, types).map(([piece, at]) => [piece.replaceAll(' ', SPACE), at])),
    controls = new Set(added.flatMap((token) => (isSpace(token) ? [] : [token.id]))),
    bare = new Map([...pieces].filter(([, at]) => !controls.has(at))),
    encoderOf = (known: ReadonlyMap<string, number>): Encoder => spmEncoder(known, scores, byteIds, unknown);
  return assemble(
    {
      size: tokens.length,
      bytes: (at) =>
        types[at] === CONTROL || types[at] === UNKNOWN
          ? encoder.encode(tokens[at])
          : (types[at] === BYTE ? toBytes : toText)(tokens[at]),
      added,
      *normalize(text, work) {
        const spaced = yield* replaceAll(' ', SPACE)(text, work);
        return yield* (prefix ? prepend(SPACE) : asItIs)(spaced, work);
      },
      prepare: asItIs,
      ids: byTrust(encoderOf(pieces), () => encoderOf(bare)),
      unknown: { id: unknown, covers: 'character' },
      spaces: true,
      dummyPrefix: prefix,
      around: around(true),
      ...ids,
    },
    where,
  );
}

/**
 * Converts SentencePiece to a list of merges, as transformers does: every split of a piece into two pieces, likelier
 * pieces first.
 */
function sentencePieceJson(metadata: ReadonlyMap<string, unknown>, where: string): JsonFields {
  const { tokens, types, added, around } = vocabulary(metadata, where),
    scores = scoresOf(metadata, tokens.length, where),
    unknown = id(metadata, 'unknown', tokens.length, where) ?? 0,
    prefix = flag(metadata, 'add_space_prefix', where) ?? true,
    ranks = new Map(piecesOf(tokens, types));
  const cuts = [...ranks].flatMap(([piece, at]) =>
    Array.from({ length: piece.length - 1 }, (_, i) => ({
      left: piece.slice(0, i + 1),
      right: piece.slice(i + 1),
      at,
    })),
  );
  const merges = cuts
    .filter(({ left, right }) => ranks.has(left) && ranks.has(right))
    .sort(
      (a, b) =>
        scores[b.at] - scores[a.at] ||
        Number(ranks.get(a.left)) - Number(ranks.get(b.left)) ||
        Number(ranks.get(a.right)) - Number(ranks.get(b.right)),
    );
  return {
    added_tokens: added.map(addedJson),
    normalizer: {
      type: 'Sequence',
      normalizers: [...(prefix ? [{ type: 'Prepend', prepend: SPACE }] : []), markSpaces],
    },
    pre_tokenizer: null,
    post_processor: template(around(true), tokens),
    decoder: {
      type: 'Sequence',
      decoders: [...piecesToText, ...(prefix ? [{ type: 'Strip', content: ' ', start: 1, stop: 0 }] : [])],
    },
    model: {
      type: 'BPE',
      unk_token: tokens[unknown],
      fuse_unk: true,
      byte_fallback: true,
      merges: merges.map(({ left, right }) => [left, right]),
    },
  };
}

/**
 * Returns the pieces that take part in merges: text only, since a word of the text must not become a non-text token.
 * llama.cpp lets all tokens take part.
 */
const piecesOf = (tokens: readonly string[], types: ArrayLike<number>): (readonly [piece: string, id: number])[] =>
  tokens.flatMap((token, at) => ([UNKNOWN, CONTROL, BYTE].includes(types[at] as number) ? [] : [[token, at] as const]));

const scoresOf = (metadata: ReadonlyMap<string, unknown>, count: number, where: string): ArrayLike<number> =>
  metadata.has('tokenizer.ggml.scores')
    ? (list(
        metadata,
        'tokenizer.ggml.scores',
        where,
        (score) => typeof score === 'number' && !Number.isNaN(score),
        count,
      ) as ArrayLike<number>)
    : new Float32Array(count);

function vocabulary(metadata: ReadonlyMap<string, unknown>, where: string): Vocabulary {
  const tokens = list(
    metadata,
    'tokenizer.ggml.tokens',
    where,
    (token) => typeof token === 'string',
  ) as readonly string[];
  for (const token of tokens) checkLength(token, where);
  const stored = metadata.has('tokenizer.ggml.token_type')
      ? (list(metadata, 'tokenizer.ggml.token_type', where, Number.isInteger, tokens.length) as ArrayLike<number>)
      : tokens.map((token) => (/^<0x[0-9A-F]{2}>$/.test(token) ? BYTE : NORMAL)),
    types = tokens.map((token, at) =>
      MARKS.has(token) || (stored[at] === USER && MARK.test(token)) ? CONTROL : (stored[at] as number),
    ),
    strips = stripsAfter(metadata);
  const ids = endsOf(metadata, where),
    { bosId, eosId } = ids;
  const added: AddedToken[] = [];
  for (let at = 0; at < tokens.length; at++) {
    const special = types[at] === CONTROL || types[at] === UNKNOWN;
    if (special || types[at] === USER)
      added.push({
        ...{ id: at, content: tokens[at], special, rstrip: strips && !BARE.includes(tokens[at]) },
        ...{ normalized: false, lstrip: false, singleWord: false },
      });
  }
  // files of Gemma 4 that say false are older than llama.cpp's correction
  const begins = metadata.get('tokenizer.ggml.model') === 'gemma4';
  const only = (add: boolean, token: number | undefined): number[] => (add && token !== undefined ? [token] : []);
  return {
    tokens,
    types,
    added,
    ids,
    around: (addBos) => ({
      before: only((flag(metadata, 'add_bos_token', where) ?? addBos) || begins, bosId),
      after: only(flag(metadata, 'add_eos_token', where) ?? false, eosId),
    }),
  };
}

/** Phi-3's tokens that keep the white space after them. */
const BARE: readonly string[] = ['<unk>', '<s>', '<|endoftext|>'];

/** Returns whether tokens take the white space after them, which GGUF files do not say: those of Phi-3 do. */
function stripsAfter(metadata: ReadonlyMap<string, unknown>): boolean {
  const [name, architecture, model] = ['general.name', 'general.architecture', 'tokenizer.ggml.model'].map((key) =>
    metadata.get(key),
  );
  return (typeof name === 'string' && /phi[- ]?3/i.test(name)) || (architecture === 'phi3' && model === 'llama');
}

/**
 * Returns the ids of tokens that end an answer by their text, as llama.cpp takes them, in addition to those that a GGUF file
 * names. In Harmony's vocabularies `<|end|>` ends a message of several.
 */
export function ggufEnds(metadata: ReadonlyMap<string, unknown>): readonly number[] {
  const tokens = metadata.get('tokenizer.ggml.tokens') as readonly string[],
    ids = tokens.flatMap((token, id) => (ENDS.has(token) ? [id] : [])),
    ends = new Set(ids.map((id) => tokens[id])),
    several =
      (ends.has('<|return|>') && ends.has('<|call|>')) ||
      (ends.has('<|flush|>') && (ends.has('<|call|>') || ends.has('<|calls|>')));
  return ids.filter((id) => !(several && tokens[id] === '<|end|>'));
}

/** Returns the ids of the tokens that begin and end a text, where the file says them. */
function endsOf(metadata: ReadonlyMap<string, unknown>, where: string): Vocabulary['ids'] {
  const { length } = list(metadata, 'tokenizer.ggml.tokens', where, () => true),
    [bosId, eosId] = ['bos', 'eos'].map((which) => id(metadata, which, length, where));
  return { ...(bosId !== undefined && { bosId }), ...(eosId !== undefined && { eosId }) };
}

function list(
  metadata: ReadonlyMap<string, unknown>,
  key: string,
  where: string,
  ok: (item: unknown) => boolean,
  length?: number,
): ArrayLike<unknown> {
  const found = metadata.get(key);
  const array = Array.isArray(found)
    ? (found as unknown[])
    : ArrayBuffer.isView(found) && !(found instanceof DataView)
      ? (found as unknown as number[])
      : undefined;
  if (array === undefined) throw new KvError(where, `${key} must be a list, got ${show(found)}`);
  if (length !== undefined && array.length !== length)
    throw new KvError(where, `${key} must have ${length} items, as many as tokens, got ${array.length}`);
  const wrong = (array as unknown[]).findIndex((item) => !ok(item));
  if (wrong >= 0)
    throw new KvError(where, `${key}[${wrong}] must be of the kind that GGUF gives it, got ${show(array[wrong])}`);
  return array;
}

/** Returns the id that a file names; one beyond the vocabulary, as converters write for none, is none. */
function id(metadata: ReadonlyMap<string, unknown>, which: string, size: number, where: string): number | undefined {
  const key = `tokenizer.ggml.${which}_token_id`;
  const found = metadata.get(key) ?? size;
  if (Number.isInteger(found) && (found as number) >= 0)
    return (found as number) < size ? (found as number) : undefined;
  throw new KvError(where, `${key} must be an integer of at least 0, got ${show(found)}`);
}

function flag(metadata: ReadonlyMap<string, unknown>, which: string, where: string): boolean | undefined {
  const found = metadata.get(`tokenizer.ggml.${which}`);
  if (found === undefined || typeof found === 'boolean') return found;
  throw new KvError(where, `tokenizer.ggml.${which} must be true or false, got ${show(found)}`);
}
