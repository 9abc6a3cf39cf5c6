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
export function bpeEncoder(
  model: JsonFields,
  vocab: ReadonlyMap<string, number>,
  { cut, byteLevel }: WordSplitting,
  where: string,
): Encoder {
  const rankOf = ranksOf(model.merges as readonly unknown[], where),
    unknown = typeof model.unk_token === 'string' ? vocab.get(model.unk_token) : undefined,
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
  const encode: Encoder = function* (word, work, out) {
    const text = byteLevel ? byteNames(word) : word,
      id = whole ? vocab.get(text) : undefined;
    if (id !== undefined) {
      out.push(id);
      return;
    }
    work.spend(text.length);
    let open = false; // whether the last id is the unknown token, which stands for what follows too
    yield* join(text, rankOf, work, (piece) => {
      const own = vocab.get(piece),
        ids = own === undefined ? fallback(piece) : [own],
        absent = own === undefined && ids[0] === unknown;
      if (!absent || !open) out.push(...ids);
      open = absent && model.fuse_unk === true;
    });
  };
  return byWord(encode, cut);
}

/** Returns the ranks of merges. @throws KvError for one that is no pair of texts */
function ranksOf(merges: readonly unknown[], where: string): PairRank {
  // by the merge as the file has it, with one space, whose text stays as it was read; a pair with spaces by where it is cut
  const ranks = new Map<string, number>(),
    spaced = new Map<string, number>();
  for (let rank = 0; rank < merges.length; rank++) {
    const merge = merges[rank];
    if (typeof merge === 'string' && hasOneSpace(merge)) {
      ranks.set(merge, rank);
      continue;
    }
    const pair = typeof merge === 'string' ? merge.split(' ', 2) : merge;
    if (!Array.isArray(pair) || pair.length !== 2 || pair.some((each) => typeof each !== 'string'))
      throw new KvError(where, `model.merges[] must be a pair of texts, got ${show(merge)}`);
    const [left, right] = pair as [string, string],
      key = `${left} ${right}`;
    if (hasOneSpace(key)) ranks.set(key, rank);
    else spaced.set(cutPair(left + right, left.length), rank);
  }
  return (text, start, middle, end) =>
    ranks.get(`${text.slice(start, middle)} ${text.slice(middle, end)}`) ??
    (spaced.size > 0 ? spaced.get(cutPair(text.slice(start, end), middle - start)) : undefined);
}

const hasOneSpace = (text: string): boolean => {
  const at = text.indexOf(' ');
  return at >= 0 && text.indexOf(' ', at + 1) < 0;
};

/** Returns a key for a pair: the joined text, and where it is cut. */
const cutPair = (whole: string, cut: number): string => `${cut} ${whole}`;
