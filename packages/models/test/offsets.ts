import { expect } from 'vitest';
import type { Tokenizer } from '../src/index.ts';

/**
 * Offsets of a text are those of the Rust library, in pairs of UTF-16 units, but a space that nobody wrote is empty and
 * what was composed covers all its parts.
 */
export function expectOffsets(tokenizer: Tokenizer, text: string, offsets: readonly number[]): void {
  const own = tokenizer.encode(text),
    composed = text !== text.normalize('NFC');
  own.offsets.forEach(([start, end], i) => {
    const theirs = offsets.slice(2 * i, 2 * i + 2) as [number, number];
    if (start === end && theirs[0] === start && new TextDecoder().decode(tokenizer.bytesOf(own.ids[i])) === ' ') return;
    if (composed) expect([start <= theirs[0], end >= theirs[1]], text).toEqual([true, true]);
    else expect([start, end], text).toEqual(theirs);
  });
}
