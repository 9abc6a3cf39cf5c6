import { KvError } from '@kv/core';
import { show, type Fields } from '../checkpoint/fields.ts';
import { createTokenizer } from '../tokenizer.ts';
import type { Tokenizer } from './interface.ts';
import { checkLength, type AddedToken } from './added.ts';
import { edit } from './aligned.ts';
import { WORDS } from './gguf-words.ts';
import { prepend, replaceAll } from './normalizer.ts';
import { assemble } from './pipeline.ts';
import { SPACE } from './token-bytes.ts';
import { spmEncoder } from './spm.ts';
import { tokenBytes } from './token-bytes.ts';

/** `tokenizer.ggml.token_type`. */
const UNKNOWN = 2;
const CONTROL = 3;
const USER = 4;
const BYTE = 6;

/** A GGUF vocabulary, checked. */
interface Vocabulary {
  readonly tokens: readonly string[];
  readonly types: ArrayLike<number>;
  readonly added: readonly AddedToken[];
  readonly ids: { readonly bosId?: number; readonly eosId?: number };
  /** What goes around a text if the file does not say whether the beginning token does. */
  readonly around: (addBos: boolean) => { before: number[]; after: number[] };
}

/**
 * A tokenizer from the `tokenizer.ggml.*` metadata of a GGUF file: model `gpt2` (byte-level BPE) or `llama`
 * (SentencePiece).
 * Control tokens are special; user-defined ones are found in any text.
 * @throws KvError naming the key that is missing or wrong, or the model or `pre` that is not known.
 */
export function ggufTokenizer(metadata: ReadonlyMap<string, unknown>, where: string): Tokenizer {
  const model = metadata.get('tokenizer.ggml.model');
  if (model === 'gpt2') return byteLevel(metadata, where);
  if (model === 'llama') return sentencePiece(metadata, where);
  throw new KvError(where, `tokenizer.ggml.model must be "gpt2" or "llama", got ${show(model)}`);
}

function byteLevel(metadata: ReadonlyMap<string, unknown>, where: string): Tokenizer {
  const { tokens, types, added, ids, around } = vocabulary(metadata, where);
  const pre = metadata.get('tokenizer.ggml.pre') ?? 'default';
  const words = WORDS.get(pre as string);
  if (words === undefined)
    throw new KvError(where, `tokenizer.ggml.pre must be one of ${[...WORDS.keys()].join(', ')}, got ${show(pre)}`);
  const merges = list(
    metadata,
    'tokenizer.ggml.merges',
    where,
    (merge) => typeof merge === 'string' && merge.includes(' '),
  ) as readonly string[];
  const { before, after } = around(words.addBos ?? false);
  const single = [...before.map(name), { Sequence: { id: 'A', type_id: 0 } }, ...after.map(name)];
  const special = Object.fromEntries(
    [...before, ...after].map((id) => [String(id), { id: String(id), ids: [id], tokens: [tokens[id]] }]),
  );
  const tokenizer = createTokenizer(
    {
      added_tokens: added,
      normalizer: words.normalizer ?? null,
      pre_tokenizer: {
        type: 'Sequence',
        pretokenizers: [...words.cuts, { type: 'ByteLevel', add_prefix_space: false, use_regex: false }],
      },
      post_processor: { type: 'TemplateProcessing', single, special_tokens: special },
      decoder: { type: 'ByteLevel' },
      model: {
        type: 'BPE',
        ignore_merges: words.ignoreMerges ?? false,
        vocab: Object.fromEntries(tokens.flatMap((token, id) => (types[id] === CONTROL ? [] : [[token, id]]))),
        merges: merges.map((merge) => [merge.slice(0, merge.indexOf(' ', 1)), merge.slice(merge.indexOf(' ', 1) + 1)]),
      },
    },
    where,
  );
  return { ...tokenizer, ...ids };
}

function name(id: number): Fields {
  return { SpecialToken: { id: String(id), type_id: 0 } };
}

function sentencePiece(metadata: ReadonlyMap<string, unknown>, where: string): Tokenizer {
  const { tokens, types, added, ids, around } = vocabulary(metadata, where);
  const scores = list(
    metadata,
    'tokenizer.ggml.scores',
    where,
    (score) => typeof score === 'number' && !Number.isNaN(score),
    tokens.length,
  ) as ArrayLike<number>;
  const unknown = id(metadata, 'unknown', tokens.length, where) ?? 0;
  const prefix = flag(metadata, 'add_space_prefix', where) ?? true;
  const toBytes = tokenBytes(false);
  const encoder = new TextEncoder();
  // A word of the text must not become a token that is no text, so only what is text takes part in merges; llama.cpp
  // lets all take part.
  const pieces = tokens.flatMap((token, at) =>
    [UNKNOWN, CONTROL, BYTE].includes(types[at] as number) ? [] : [[token.replaceAll(' ', SPACE), at] as const],
  );
  const byteIds = new Map(
    tokens.flatMap((token, at) => (types[at] === BYTE ? [[toBytes(token)[0] as number, at] as const] : [])),
  );
  return assemble(
    {
      bytes: tokens.map((token, at) =>
        types[at] === CONTROL || types[at] === UNKNOWN ? encoder.encode(token) : toBytes(token),
      ),
      added,
      normalize: (text, work) => {
        const spaced = edit(text, replaceAll(' ', SPACE)(text.text, work), work);
        return prefix ? edit(spaced, prepend(SPACE)(spaced.text, work), work) : spaced;
      },
      prepare: (text) => text,
      ids: spmEncoder(new Map(pieces), scores, byteIds, unknown),
      unknown: { id: unknown, covers: 'character' },
      spaces: true,
      dummyPrefix: prefix,
      around: around(true),
      ...ids,
    },
    where,
  );
}

function vocabulary(metadata: ReadonlyMap<string, unknown>, where: string): Vocabulary {
  const tokens = list(
    metadata,
    'tokenizer.ggml.tokens',
    where,
    (token) => typeof token === 'string',
  ) as readonly string[];
  for (const token of tokens) checkLength(token, where);
  const types = list(
    metadata,
    'tokenizer.ggml.token_type',
    where,
    Number.isInteger,
    tokens.length,
  ) as ArrayLike<number>;
  const bosId = id(metadata, 'bos', tokens.length, where);
  const eosId = id(metadata, 'eos', tokens.length, where);
  const added = tokens.flatMap((content, at): AddedToken[] => {
    const special = types[at] === CONTROL || types[at] === UNKNOWN;
    return special || types[at] === USER
      ? [{ id: at, content, special, normalized: false, lstrip: false, rstrip: false, singleWord: false }]
      : [];
  });
  const only = (add: boolean, token: number | undefined): number[] => (add && token !== undefined ? [token] : []);
  return {
    tokens,
    types,
    added,
    ids: { ...(bosId !== undefined && { bosId }), ...(eosId !== undefined && { eosId }) },
    around: (addBos) => ({
      before: only(flag(metadata, 'add_bos_token', where) ?? addBos, bosId),
      after: only(flag(metadata, 'add_eos_token', where) ?? false, eosId),
    }),
  };
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

function id(metadata: ReadonlyMap<string, unknown>, which: string, size: number, where: string): number | undefined {
  const key = `tokenizer.ggml.${which}_token_id`;
  const found = metadata.get(key);
  if (found === undefined || (Number.isInteger(found) && (found as number) >= 0 && (found as number) < size))
    return found as number | undefined;
  throw new KvError(where, `${key} must be an integer from 0 to ${size - 1}, got ${show(found)}`);
}

function flag(metadata: ReadonlyMap<string, unknown>, which: string, where: string): boolean | undefined {
  const found = metadata.get(`tokenizer.ggml.${which}`);
  if (found === undefined || typeof found === 'boolean') return found;
  throw new KvError(where, `tokenizer.ggml.${which} must be true or false, got ${show(found)}`);
}
