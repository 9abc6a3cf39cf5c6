import { KvError } from '@kv/core';
import type { TokenEncoding, DecoderOptions, EncodeOptions, StreamDecoder, Tokenizer } from './interface.ts';
import { checkAdded, cutter, type AddedToken } from './added-tokens.ts';
import { align, slice, type AlignedText, type NormalizerStep } from './aligned.ts';
import type { EncoderByTrust } from './encoder.ts';
import { tokenOffsets, type UnknownToken } from './offsets.ts';
import { finish, type Pausable } from './paused.ts';
import type { TokenAffixes } from './post-processor.ts';
import { WorkLimit } from './work-limit.ts';

/** The steps between text and ids; each step tracks where its text comes from. */
export interface TokenizerPipeline {
  /** Number of ids, and the UTF-8 bytes of each: empty for one without a token. Called once for each id. */
  readonly size: number;
  readonly bytes: (id: number) => Uint8Array;
  /** Number of ids that the model gives; those from `size` have no text. @defaultValue `size` */
  readonly rows?: number;
  readonly added: readonly AddedToken[];
  readonly normalize: NormalizerStep;
  /** What a pre-tokenizer changes in a section of normalised text. */
  readonly prepare: NormalizerStep;
  /** The model: returns the ids of a prepared section. */
  readonly ids: EncoderByTrust;
  readonly unknown: UnknownToken | undefined;
  /** Whether U+2581 stands for a space. */
  readonly spaces: boolean;
  /** Whether text starts with an inserted space, which decoding removes. */
  readonly dummyPrefix: boolean;
  readonly around: TokenAffixes;
  readonly bosId?: number;
  readonly eosId?: number;
}

/** All state of a decoder. */
interface DecoderState {
  /** Whether an inserted space may follow. */
  readonly first: boolean;
  /** Bytes of a character that is not complete yet. */
  readonly pending: Uint8Array;
}

const utf8 = new TextDecoder('utf-8', { ignoreBOM: true });

/** Returns the number of trailing bytes that begin a UTF-8 character without completing it. */
function unfinished(bytes: Uint8Array): number {
  if (!(bytes[bytes.length - 1] >= 128)) return 0;
  for (let n = Math.min(3, bytes.length); n > 0; n--) {
    const text = utf8.decode(bytes.subarray(bytes.length - n), { stream: true });
    utf8.decode(); // resets its state
    if (text === '') return n;
  }
  return 0;
}

/** Assembles a tokenizer from its steps. `where` is named in errors. */
export function assemble(pipeline: TokenizerPipeline, where: string): Tokenizer {
  const { size, normalize, prepare, ids, unknown, spaces, dummyPrefix, around, bosId, eosId } = pipeline;
  const added = checkAdded(pipeline.added, where);
  const specials = new Map(added.flatMap(({ special, content, id }) => (special ? [[content, id]] : [])));
  const specialIds = new Set(specials.values());
  const rawCut = cutter(
    added.filter(({ normalized }) => !normalized),
    (content) => content,
  );
  const normalCut = cutter(
    added.filter(({ normalized }) => normalized),
    (content) => finish(normalize(align(content, 0), new WorkLimit(where, content.length))).text,
  );
  const bytesOf = packed(size, pipeline.rows ?? size, pipeline.bytes, where);

  /** Appends the ids of a text to `out` and, if `offsets` is given, their positions to that. */
  function* encoding(
    text: string,
    { parse = true, untrusted = [] }: EncodeOptions,
    out: number[],
    offsets?: [number, number][],
  ): Pausable<void> {
    const closed = untrusted.length === 0 ? undefined : closedOf(text.length, untrusted, where),
      closedUnit = closed && ((at: number) => closed(at, at + 1));
    const work = new WorkLimit(where, text.length);
    const put = (id: number, from: number, to: number): void => {
      out.push(id);
      offsets?.push([from, to]);
    };
    for (const outer of rawCut(text, { parse, closed: closedUnit }, work)) {
      if (outer === undefined) {
        yield;
        continue;
      }
      const { from, to, token } = outer;
      if (token !== undefined) {
        put(token.id, from, to);
        continue;
      }
      work.spend(to - from);
      if (work.due) yield;
      const normal = yield* normalize(align(text.slice(from, to), from), work);
      const closedNormal = closed && ((at: number) => closed(normal.start[at] as number, normal.end[at] as number));
      for (const inner of normalCut(normal.text, { parse, closed: closedNormal }, work)) {
        if (inner === undefined) {
          yield;
          continue;
        }
        const section = slice(normal, inner.from, inner.to);
        if (inner.token !== undefined) {
          put(inner.token.id, section.start[0] ?? from, section.end.at(-1) ?? from);
          continue;
        }
        const prepared = yield* prepare(section, work);
        const own = offsets ? [] : out;
        yield* ids(holds(prepared, closed))(prepared.text, work, own);
        if (!offsets) continue;
        for (const place of tokenOffsets(prepared, own, bytesOf, spaces, work, unknown)) offsets.push(place);
        for (const id of own) out.push(id);
      }
    }
  }
  const encode = (text: string, options: EncodeOptions): TokenEncoding => {
    const own: { ids: number[]; offsets: [number, number][] } = { ids: [], offsets: [] };
    finish(encoding(text, options, own.ids, own.offsets));
    return own;
  };
  const wellFormed = (text: string): string => {
    if (typeof text !== 'string') throw new KvError(where, `expected a text to encode, got ${typeof text}`);
    return text.replace(/\p{Surrogate}/gu, '\uFFFD');
  };

  /** Returns the special tokens that are left out. */
  const leftOut = ({ special = false }: DecoderOptions): ReadonlySet<number> => {
    if (special === true) return new Set();
    const written = new Set(special === false ? [] : special.map((name) => specials.get(name)));
    return written.size === 0 ? specialIds : new Set([...specialIds].filter((id) => !written.has(id)));
  };
  const decoderFrom = (without: ReadonlySet<number>, state: DecoderState): StreamDecoder => {
    let { first, pending } = state;
    return {
      push(id) {
        const token = bytesOf(id);
        if (without.has(id)) return '';
        const own = first && token[0] === 32 ? token.subarray(1) : token,
          all = pending.length === 0 ? own : Uint8Array.of(...pending, ...own),
          whole = all.length - unfinished(all);
        first = false;
        pending = all.subarray(whole);
        return utf8.decode(all.subarray(0, whole));
      },
      get pending() {
        return pending.length;
      },
      end() {
        const rest = utf8.decode(pending);
        pending = pending.subarray(0, 0);
        return rest;
      },
      fork: (options) => decoderFrom(options ? leftOut(options) : without, { first, pending }),
    };
  };
  const streamDecoder: Tokenizer['streamDecoder'] = (options = {}) =>
    decoderFrom(leftOut(options), { first: dummyPrefix, pending: new Uint8Array() });

  return {
    size,
    specials,
    ...(bosId !== undefined && { bosId }),
    ...(eosId !== undefined && { eosId }),
    bytesOf,
    encode(text, options = {}) {
      const { special = true } = options;
      const own = encode(wellFormed(text), options);
      if (!special) return own;
      const empty = (at: number) => (): [number, number] => [at, at];
      return {
        ids: [...around.before, ...own.ids, ...around.after],
        offsets: [...around.before.map(empty(0)), ...own.offsets, ...around.after.map(empty(text.length))],
      };
    },
    *encodeParts(text, options = {}) {
      const { special = true } = options;
      const out = special ? [...around.before] : [];
      for (const _ of encoding(wellFormed(text), options, out)) yield out.splice(0);
      if (special) out.push(...around.after);
      yield out;
    },
    decode(tokens, options) {
      if (typeof Object(tokens)[Symbol.iterator] !== 'function')
        throw new KvError(where, `expected token ids to decode, got ${typeof tokens}`);
      const stream = streamDecoder(options);
      let text = '';
      for (const id of tokens) text += stream.push(id);
      return text + stream.end();
    },
    streamDecoder,
  };
}

/**
 * Returns the bytes of each token, all in one array: an array of its own takes some 200 bytes a token.
 * @throws KvError, from the function, for an id outside the vocabulary
 */
function packed(
  size: number,
  rows: number,
  bytes: TokenizerPipeline['bytes'],
  where: string,
): TokenizerPipeline['bytes'] {
  const ends = new Uint32Array(size);
  let all = new Uint8Array(8 * size);
  for (let id = 0, at = 0; id < size; id++) {
    const token = bytes(id);
    if (at + token.length > all.length) {
      const more = new Uint8Array(2 * (at + token.length));
      more.set(all);
      all = more;
    }
    all.set(token, at);
    ends[id] = at += token.length;
  }
  return (id) => {
    const end = ends[id];
    if (end === undefined && Number.isInteger(id) && id >= size && id < rows) return all.subarray(0, 0);
    if (end === undefined) throw new KvError(where, `a token id must be an integer from 0 to ${rows - 1}, got ${id}`);
    return all.subarray(id === 0 ? 0 : ends[id - 1], end);
  };
}

/** Returns whether a part of a text holds characters of the ranges. @throws KvError for invalid or unordered ranges */
function closedOf(
  length: number,
  ranges: readonly (readonly [number, number])[],
  where: string,
): (from: number, to: number) => boolean {
  const before = new Uint32Array(length + 1);
  let last = 0;
  for (const [from, to] of ranges) {
    if (!(Number.isInteger(from) && Number.isInteger(to) && from >= last && to >= from && to <= length))
      throw new KvError(
        where,
        `untrusted must be ranges of a text of ${length} characters, in order, got [${from}, ${to}] after ${last}`,
      );
    before.fill(1, from + 1, to + 1);
    last = to;
  }
  for (let i = 0; i < length; i++) before[i + 1] += before[i] as number;
  return (from, to) => (before[to] as number) > (before[from] as number);
}

/** Returns whether any unit of a section comes from untrusted text. */
function holds({ start, end }: AlignedText, closed: ((from: number, to: number) => boolean) | undefined): boolean {
  if (closed === undefined) return false;
  for (let i = 0; i < start.length; i++) if (closed(start[i] as number, end[i] as number)) return true;
  return false;
}
