import { KvError } from '@kv/core';
import { show, type JsonFields } from '../read/fields.ts';
import { byWord, type Encoder } from './encoder.ts';
import { join, type PairRank } from './join.ts';
import { byteNames } from './token-bytes.ts';
import type { WordCutter } from './word-cutter.ts';

/** How a text is split: cut into words, written as bytes if `byteLevel`, whose characters are then joined by merges. */
export interface WordSplitting {
  readonly cut: WordCutter;
  readonly byteLevel: boolean;
}

/**
 * Byte-pair encoding (Sennrich et al. 2016, arXiv:1508.07909) of the `model` of a tokenizer.json, word by word.
 * Implemented here because no library can pause within a long word.
 * @throws KvError for an invalid merge
 */
export function bpeEncoder(model: JsonFields, { cut, byteLevel }: WordSplitting, where: string): Encoder {
  const vocab = new Map<string, number>(),
    ranks = new Map<string, number>(),
    ids = model.vocab as Readonly<Record<string, number>>;
  // pair by pair: all pairs at once would take as much memory as a small model
  for (const token of Object.keys(ids)) vocab.set(token, ids[token]);
  for (const [rank, merge] of (model.merges as readonly unknown[]).entries()) ranks.set(merged(merge, where), rank);
  const unknown = typeof model.unk_token === 'string' ? vocab.get(model.unk_token) : undefined,
    whole = model.ignore_merges === true;
  const bytes =
    model.byte_fallback === true
      ? Array.from({ length: 256 }, (_, byte) => vocab.get(`<0x${byte.toString(16).toUpperCase().padStart(2, '0')}>`))
      : [];
  const encoder = new TextEncoder();
  const fallback = (piece: string): readonly number[] => {
    const ids = bytes.length > 0 ? Array.from(encoder.encode(piece), (byte) => bytes[byte]) : [unknown];
    return ids.every((id) => id !== undefined) ? ids : unknown === undefined ? [] : [unknown];
  };
  const rankOf: PairRank = (text, start, middle, end) => ranks.get(pairOf(text.slice(start, end), middle - start));
  const encode: Encoder = function* (word, work, out) {
    const text = byteLevel ? byteNames(word) : word,
      id = whole ? vocab.get(text) : undefined;
    if (id !== undefined) {
      out.push(id);
      return;
    }
    work.spend(text.length);
    yield* join(text, rankOf, work, (piece) => {
      const own = vocab.get(piece);
      if (own === undefined) out.push(...fallback(piece));
      else out.push(own);
    });
  };
  const each = byWord(encode, cut);
  if (model.fuse_unk !== true || unknown === undefined) return each;
  return function* (text, work, out) {
    const ids: number[] = [];
    let last: number | undefined;
    const take = (): void => {
      for (const id of ids.splice(0)) {
        if (id !== unknown || last !== unknown) out.push(id);
        last = id;
      }
    };
    for (const _ of each(text, work, ids)) {
      take();
      yield;
    }
    take();
  };
}

/** Returns the key of a pair's rank: the joined text, and where it is cut. */
const pairOf = (whole: string, cut: number): string => `${cut} ${whole}`;

function merged(merge: unknown, where: string): string {
  const pair = typeof merge === 'string' ? merge.split(' ', 2) : merge;
  if (!Array.isArray(pair) || pair.length !== 2 || pair.some((each) => typeof each !== 'string'))
    throw new KvError(where, `model.merges[] must be a pair of texts, got ${show(merge)}`);
  const [left, right] = pair as [string, string];
  return pairOf(left + right, left.length);
}
