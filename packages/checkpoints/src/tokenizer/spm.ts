import { byWord, type Encoder } from './encoder.ts';
import { join, type PairRank } from './join.ts';
import { SPACE } from './token-bytes.ts';

/**
 * SentencePiece's BPE (Kudo and Richardson 2018, arXiv:1808.06226): of all neighbours that together form a piece, those
 * with the highest score are joined first, the leftmost of equals. A merge list cannot express this: two pairs that
 * form the same piece would get different ranks. Text that ends as no piece becomes the byte tokens of its UTF-8, or
 * the unknown token if one of them is missing.
 */
export function spmEncoder(
  pieces: ReadonlyMap<string, number>,
  scores: ArrayLike<number>,
  byteIds: ReadonlyMap<number, number>,
  unknown: number,
): Encoder {
  const encoder = new TextEncoder();
  const fallback = (char: string): number[] => {
    const bytes = Array.from(encoder.encode(char), (byte) => byteIds.get(byte));
    return bytes.every((id) => id !== undefined) ? bytes : [unknown];
  };
  const order = new Map([...new Set(Array.from(scores))].sort((a, b) => b - a).map((score, rank) => [score, rank])),
    ranks = new Map(Array.from(pieces, ([piece, id]) => [piece, order.get(scores[id] as number)]));
  const rankOf: PairRank = (text, start, _, end) => ranks.get(text.slice(start, end));
  const encode: Encoder = (text, work, out) =>
    join(text, rankOf, work, (piece) => {
      const id = pieces.get(piece);
      if (id === undefined) out.push(...fallback(piece));
      else out.push(id);
    });
  // If no piece continues past the end of a word, no join does either: words can be encoded one by one.
  const end = new RegExp(`[^${SPACE}]${SPACE}`);
  for (const piece of pieces.keys()) if (end.test(piece)) return encode;
  const words = new RegExp(`${SPACE}*[^${SPACE}]+|${SPACE}+`, 'g');
  return byWord(encode, function* (text) {
    for (const [word] of text.matchAll(words)) yield word;
  });
}
