import type { Fields } from '../checkpoint/fields.ts';
import { BPE } from './library.ts';
import { byteNames } from './token-bytes.ts';
import type { Work } from './work.ts';
import type { Cut } from './words.ts';

/** Words whose ids are kept for when they come again, and the longest of them. */
const REMEMBERED = { words: 10_000, length: 256 } as const;

/** How a text becomes ids: cut into words, each written in bytes if `byteLevel`, its pieces joined by the library. */
export interface Words {
  readonly cut: Cut;
  readonly byteLevel: boolean;
}

/** Byte-pair encoding (Sennrich et al. 2016, arXiv:1508.07909) of a `model` of a tokenizer.json, word by word. */
export function bpeEncoder(model: Fields, { cut, byteLevel }: Words): (text: string, work: Work) => readonly number[] {
  const bpe = new BPE(model);
  const known = new Map<string, readonly number[]>();
  const encode = (word: string): readonly number[] =>
    bpe
      .encode([byteLevel ? byteNames(word) : word])
      .map((token) => bpe.tokens_to_ids.get(token) ?? bpe.unk_token_id)
      .filter((id) => id !== undefined);
  const idsOf = (word: string): readonly number[] => {
    const found = known.get(word);
    if (found !== undefined) return found;
    const ids = encode(word);
    if (known.size >= REMEMBERED.words) known.clear();
    if (word.length <= REMEMBERED.length) known.set(word, ids);
    return ids;
  };
  const fused = bpe.fuse_unk ? bpe.unk_token_id : undefined;
  return (text, work) => {
    const ids: number[] = [];
    for (const word of cut(text, work))
      for (const id of idsOf(word)) if (id !== fused || ids.at(-1) !== fused) ids.push(id);
    return ids;
  };
}
