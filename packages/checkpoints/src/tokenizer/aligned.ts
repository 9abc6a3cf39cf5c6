import type { Pausable } from './paused.ts';
import type { WorkLimit } from './work-limit.ts';

/**
 * A text and, for each of its UTF-16 units, the `[start, end)` range of the original text that it stands for; empty for
 * a unit that was inserted.
 */
export interface AlignedText {
  readonly text: string;
  readonly start: Uint32Array;
  readonly end: Uint32Array;
}

/** Replaces `text[from, to)`; the edits of one pass are ordered and do not overlap. */
export interface TextEdit {
  readonly from: number;
  readonly to: number;
  readonly text: string;
}

/** A normalizer: maps an aligned text to an aligned text. */
export type NormalizerStep = (text: AlignedText, work: WorkLimit) => Pausable<AlignedText>;

/** Aligns `text` with its position `at` in the original. */
export function align(text: string, at: number): AlignedText {
  const start = new Uint32Array(text.length);
  const end = new Uint32Array(text.length);
  for (let i = 0; i < text.length; i++) {
    start[i] = at + i;
    end[i] = at + i + 1;
  }
  return { text, start, end };
}

/** Returns a part of an aligned text. */
export function slice({ text, start, end }: AlignedText, from: number, to: number): AlignedText {
  return { text: text.slice(from, to), start: start.subarray(from, to), end: end.subarray(from, to) };
}

/**
 * Applies edits; every unit of a replacement stands for all that it replaces.
 * @throws KvError if the text grows out of proportion
 */
export function* edit(source: AlignedText, edits: readonly TextEdit[], work: WorkLimit): Pausable<AlignedText> {
  if (edits.length === 0) return source;
  const length = edits.reduce((sum, { from, to, text }) => sum + text.length - (to - from), source.text.length);
  work.grown(length);
  const start = new Uint32Array(length);
  const end = new Uint32Array(length);
  let [text, at, kept] = ['', 0, 0];
  const keep = (to: number): void => {
    text += source.text.slice(kept, to);
    start.set(source.start.subarray(kept, to), at);
    end.set(source.end.subarray(kept, to), at);
    at += to - kept;
  };
  for (const change of edits) {
    keep(change.from);
    const first = source.start[change.from] ?? source.end.at(-1) ?? 0;
    start.fill(first, at, at + change.text.length);
    end.fill(change.to > change.from ? (source.end[change.to - 1] ?? first) : first, at, at + change.text.length);
    text += change.text;
    at += change.text.length;
    kept = change.to;
    work.spend(8);
    if (work.due) yield;
  }
  keep(source.text.length);
  return { text, start, end };
}

/** The identity step. */
export const asItIs: NormalizerStep = (text, work) => edit(text, [], work);
