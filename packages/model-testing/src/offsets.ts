import { expect } from 'vitest';

/** A tokenizer of @kv/checkpoints. */
interface Tokenizer {
  encode(text: string): {
    readonly ids: readonly number[];
    readonly offsets: readonly (readonly [start: number, end: number])[];
  };
  bytesOf(id: number): Uint8Array;
}

/**
 * Checks a text's offsets against those of the Rust library, in pairs of UTF-16 units; an inserted space is empty
 * instead, and composed text covers all its parts.
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
