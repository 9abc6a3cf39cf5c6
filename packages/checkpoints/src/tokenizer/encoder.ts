import type { Pausable } from './paused.ts';
import type { WorkLimit } from './work-limit.ts';
import type { WordCutter } from './word-cutter.ts';

/** Appends the ids of a text to `out`. */
export type Encoder = (text: string, work: WorkLimit, out: number[]) => Pausable<void>;

/** Returns the encoder of a text; for one with untrusted text, it produces no added tokens but white space. */
export type EncoderByTrust = (untrusted: boolean) => Encoder;
/** Combines two encoders; the one for untrusted text is created on first use. */
export function byTrust(trusted: Encoder, untrusted: () => Encoder): EncoderByTrust {
  let made: Encoder | undefined;
  return (of) => (of ? (made ??= untrusted()) : trusted);
}

/** Maximum number of cached words, and maximum length of each. */
const REMEMBERED = { words: 10_000, length: 256 } as const;

/** Returns an encoder that encodes a text word by word. */
export function byWord(encode: Encoder, cut: WordCutter): Encoder {
  const known = new Map<string, readonly number[]>();
  return function* (text, work, out) {
    for (const word of cut(text, work)) {
      if (word === undefined) {
        yield;
        continue;
      }
      const found = known.get(word);
      if (found !== undefined) for (const id of found) out.push(id);
      else if (word.length > REMEMBERED.length) yield* encode(word, work, out);
      else {
        const ids: number[] = [];
        yield* encode(word, work, ids);
        for (const id of ids) out.push(id);
        if (known.size >= REMEMBERED.words) known.clear();
        known.set(word.split('').join(''), ids); // a copy: a part of a text keeps the whole text in memory
      }
      work.spend(4);
      if (work.due) yield;
    }
  };
}
