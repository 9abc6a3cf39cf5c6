import type { HostArray, Tokens } from '@kv/core';

/** Positions of anchors in a text, ascending: tokens after which something worth keeping follows. Sees the whole sequence so far, evicted tokens included. */
export type Detector = (tokens: Tokens) => readonly number[];

/** A detector from a pattern: the last token of every match. Offsets and matches count in UTF-16 units. */
export function matching(pattern: RegExp): Detector {
  const every = new RegExp(pattern.source, [...new Set([...pattern.flags, 'g'])].join(''));
  return function matching({ text, offsets }) {
    const found = new Set<number>();
    for (const match of text.matchAll(every)) if (match[0].length > 0) found.add(tokenBefore(match.index + match[0].length, offsets));
    found.delete(-1);
    return [...found].sort((a, b) => a - b);
  };
}

/** The last token that starts before the offset `end`, or -1. */
function tokenBefore(end: number, offsets: Parameters<Detector>[0]['offsets']): number {
  let low = 0, high = offsets.length;
  while (low < high) { const middle = (low + high) >> 1; if (offsets[middle]![0] < end) low = middle + 1; else high = middle; }
  return low - 1;
}

/** The detector's anchors below `length` as a row of 1 and 0, f32 `[1, length]`; remembered until the text grows, as every layer asks for the same. */
export function marked(detect: Detector): (tokens: Tokens, length: number) => HostArray {
  const known = new WeakMap<Tokens, HostArray>();
  return (tokens, length) => {
    const before = known.get(tokens);
    if (before?.shape[1] === length) return before;
    const data = new Float32Array(length);
    for (const position of detect(tokens)) if (position < length) data[position] = 1;
    const row: HostArray = { data, shape: [1, length] };
    known.set(tokens, row);
    return row;
  };
}
