import type { Pausable } from './paused.ts';
import type { WorkLimit } from './work.ts';
import type { WordCutter } from './words.ts';

/** Puts the ids of a text behind those in `out`. */
export type Encoder = (text: string, work: WorkLimit, out: number[]) => Pausable<void>;

/** Picks the encoder of a text: of one with untrusted text it makes no added token but white space. */
export type EncoderByTrust = (untrusted: boolean) => Encoder;
/** The second is made when it is first needed. */
export function byTrust(trusted: Encoder, untrusted: () => Encoder): EncoderByTrust {
  let made: Encoder | undefined;
  return (of) => (of ? (made ??= untrusted()) : trusted);
}

/** Words whose ids are kept for when they come again, and the longest of them. */
const REMEMBERED = { words: 10_000, length: 256 } as const;

/** Encodes the words of a text one by one. */
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
        known.set(word, ids);
      }
      work.spend(4);
      if (work.due) yield;
    }
  };
}
