import { KvError } from '@kv/core';
import type { Encoded, StreamDecoder, Tokenizer } from './interface.ts';
import { checkAdded, cutter, type AddedToken } from './added.ts';
import { align, slice, type Aligned } from './aligned.ts';
import { tokenOffsets, type Unknown } from './offsets.ts';
import type { Around } from './post-processor.ts';
import { Work } from './work.ts';

/** The steps from text to ids and back; each step keeps where its text comes from. */
export interface Pipeline {
  /** UTF-8 bytes of each token id; ids without a token are empty. */
  readonly bytes: readonly Uint8Array[];
  readonly added: readonly AddedToken[];
  readonly normalize: (text: Aligned, work: Work) => Aligned;
  /** What a pre-tokenizer changes in a section of normalised text. */
  readonly prepare: (text: Aligned, work: Work) => Aligned;
  /** The model: ids of a prepared section. */
  readonly ids: (text: string, work: Work) => readonly number[];
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
    (content) => normalize(align(content, 0), new Work(where, content.length)).text,
  );
  const bytesOf = (id: number): Uint8Array => {
    const token = bytes[id];
    if (token === undefined)
      throw new KvError(where, `a token id must be an integer from 0 to ${bytes.length - 1}, got ${id}`);
    return token;
  };

  const encode = (text: string, parse: boolean): Encoded => {
    const found: number[] = [];
    const offsets: [number, number][] = [];
    const put = (id: number, at: [number, number]): void => {
      found.push(id);
      offsets.push(at);
    };
    const work = new Work(where, text.length);
    const plain = (section: Aligned): void => {
      const prepared = prepare(section, work);
      const own = ids(prepared.text, work);
      const places = tokenOffsets(prepared, own, bytesOf, spaces, work, unknown);
      own.forEach((id, i) => put(id, places[i] as [number, number]));
    };
    for (const { from, to, token } of rawCut(text, parse, work)) {
      if (token !== undefined) {
        put(token.id, [from, to]);
        continue;
      }
      const normal = normalize(align(text.slice(from, to), from), work);
      for (const inner of normalCut(normal.text, parse, work)) {
        const section = slice(normal, inner.from, inner.to);
        if (inner.token === undefined) plain(section);
        else put(inner.token.id, [section.start[0] ?? from, section.end.at(-1) ?? from]);
      }
    }
    return { ids: found, offsets };
  };

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
      const own = encode(text.replace(/\p{Surrogate}/gu, '\uFFFD'), parse);
      if (!special) return own;
      const empty = (at: number) => (): [number, number] => [at, at];
      return {
        ids: [...around.before, ...own.ids, ...around.after],
        offsets: [...around.before.map(empty(0)), ...own.offsets, ...around.after.map(empty(text.length))],
      };
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
