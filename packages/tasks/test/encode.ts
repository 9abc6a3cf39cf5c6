import type { Encode } from '../src/index.ts';

/**
 * A tokenizer like the embedded model's: `<s>` first, digits and capitals separate, words in pieces of
 * up to five letters.
 */
export const encode: Encode = (text, { special = true } = {}) => {
  const offsets: [number, number][] = special ? [[0, 0]] : [];
  for (const match of text.matchAll(/ ?[A-Z]| ?[0-9]| ?[a-z]{1,5}| ?[^\sA-Za-z0-9]+|\s/g))
    offsets.push([match.index, match.index + match[0].length]);
  return {
    ids: offsets.map(([start, end], i) =>
      special && i === 0 ? 0 : 1 + ((text.charCodeAt(start) + 31 * text.charCodeAt(end - 1)) % 997),
    ),
    offsets,
  };
};
