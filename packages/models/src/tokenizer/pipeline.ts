import { KvError } from '@kv/core';
import type { Encoded, StreamDecoder, Tokenizer } from './interface.ts';
import { checkAdded, cutter, type AddedToken } from './added.ts';
import { align, slice, type Step } from './aligned.ts';
import type { Encoder } from './encoder.ts';
import { tokenOffsets, type Unknown } from './offsets.ts';
import { finish, type Paused } from './paused.ts';
import type { Around } from './post-processor.ts';
import { Work } from './work.ts';

/** The steps from text to ids and back; each step keeps where its text comes from. */
export interface Pipeline {
  /** UTF-8 bytes of each token id; ids without a token are empty. */
  readonly bytes: readonly Uint8Array[];
  readonly added: readonly AddedToken[];
  readonly normalize: Step;
  /** What a pre-tokenizer changes in a section of normalised text. */
  readonly prepare: Step;
  /** The model: ids of a prepared section. */
  readonly ids: Encoder;
  readonly unknown: Unknown | undefined;
  /** Whether U+2581 stands for a space. */
  readonly spaces: boolean;
  /** Whether text starts with a space that nobody wrote, which decoding takes off. */
  readonly dummyPrefix: boolean;
  readonly around: Around;
  readonly bosId?: number;
  readonly eosId?: number;
}

/** A tokenizer from its steps. Errors are about `where`. */
export function assemble(pipeline: Pipeline, where: string): Tokenizer {
  const { bytes, normalize, prepare, ids, unknown, spaces, dummyPrefix, around, bosId, eosId } = pipeline;
  const added = checkAdded(pipeline.added, where);
  const specials = new Map(added.flatMap(({ special, content, id }) => (special ? [[content, id]] : [])));
  const specialIds = new Set(specials.values());
  const rawCut = cutter(
    added.filter(({ normalized }) => !normalized),
    (content) => content,
  );
  const normalCut = cutter(
    added.filter(({ normalized }) => normalized),
    (content) => finish(normalize(align(content, 0), new Work(where, content.length))).text,
  );
  const bytesOf = (id: number): Uint8Array => {
    const token = bytes[id];
    if (token === undefined)
      throw new KvError(where, `a token id must be an integer from 0 to ${bytes.length - 1}, got ${id}`);
    return token;
  };

  /** Puts the ids of a text behind those in `out`, and their places behind those in `offsets`, where it is given. */
  function* encoding(text: string, parse: boolean, out: number[], offsets?: [number, number][]): Paused<void> {
    const work = new Work(where, text.length);
    const put = (id: number, from: number, to: number): void => {
      out.push(id);
      offsets?.push([from, to]);
    };
    for (const outer of rawCut(text, parse, work)) {
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
      for (const inner of normalCut(normal.text, parse, work)) {
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
        yield* ids(prepared.text, work, own);
        if (!offsets) continue;
        for (const place of tokenOffsets(prepared, own, bytesOf, spaces, work, unknown)) offsets.push(place);
        for (const id of own) out.push(id);
      }
    }
  }
  const encode = (text: string, parse: boolean): Encoded => {
    const own: { ids: number[]; offsets: [number, number][] } = { ids: [], offsets: [] };
    finish(encoding(text, parse, own.ids, own.offsets));
    return own;
  };
  const wellFormed = (text: string): string => text.replace(/\p{Surrogate}/gu, '\uFFFD');

  const streamDecoder: Tokenizer['streamDecoder'] = ({ special = false } = {}): StreamDecoder => {
    const decoder = new TextDecoder('utf-8', { ignoreBOM: true });
    let first = dummyPrefix;
    return {
      push(id) {
        const token = bytesOf(id);
        if (specialIds.has(id) && !special) return '';
        const start = first && token[0] === 32 ? 1 : 0;
        first = false;
        return decoder.decode(token.subarray(start), { stream: true });
      },
      end: () => decoder.decode(),
    };
  };

  return {
    size: bytes.length,
    specials,
    ...(bosId !== undefined && { bosId }),
    ...(eosId !== undefined && { eosId }),
    bytesOf,
    encode(text, { special = true, parse = true } = {}) {
      const own = encode(wellFormed(text), parse);
      if (!special) return own;
      const empty = (at: number) => (): [number, number] => [at, at];
      return {
        ids: [...around.before, ...own.ids, ...around.after],
        offsets: [...around.before.map(empty(0)), ...own.offsets, ...around.after.map(empty(text.length))],
      };
    },
    *encodeParts(text, { special = true, parse = true } = {}) {
      const out = special ? [...around.before] : [];
      for (const _ of encoding(wellFormed(text), parse, out)) yield out.splice(0);
      if (special) out.push(...around.after);
      yield out;
    },
    decode(tokens, options) {
      const stream = streamDecoder(options);
      let text = '';
      for (const id of tokens) text += stream.push(id);
      return text + stream.end();
    },
    streamDecoder,
  };
}
