import { LEVELS } from '@kv/core';
import type { CachePart } from './cache-rows.ts';
import { decodeRow, encodeRow, viewsOf } from './encode.ts';
import { cacheForms, rowBytes, type RowForm } from './form.ts';

/** First bit of the level in a word of a table. */
export const LEVEL_SHIFT = 29;

/** Returns the byte at which the record of a table's word begins. */
export const begin = (word: number): number => ((word << (32 - LEVEL_SHIFT)) >>> (32 - LEVEL_SHIFT)) * 4;

/** Where a key or value lies in a record. */
interface PartLayout {
  readonly form: RowForm;
  readonly codes: number;
  readonly scales: number;
}

/** Returns where keys or values lie in the records of every level. */
export const partLayouts = (part: CachePart, headDim: number): readonly PartLayout[] =>
  LEVELS.map((level) => {
    const { [part]: form, keys } = cacheForms[level],
      key = rowBytes(keys, headDim),
      codes = part === 'keys' ? 0 : key.codes + key.scales;
    return { form, codes, scales: codes + rowBytes(form, headDim).codes };
  });

/** Keys or values of records: the words of a table that say which, and the bytes of all. */
export interface RecordRows {
  readonly part: CachePart;
  readonly words: Uint32Array;
  readonly bytes: Uint8Array;
}

/** Calls a function with the form of each record's key or value, and where its codes and scales begin. */
function forEachRecord(
  { part, words }: RecordRows,
  d: number,
  use: (form: RowForm, codes: number, scales: number, i: number) => void,
): void {
  const layouts = partLayouts(part, d);
  for (let i = 0; i < words.length; i++) {
    const at = begin(words[i]),
      { form, codes, scales } = layouts[words[i] >>> LEVEL_SHIFT];
    use(form, at + codes, at + scales, i);
  }
}

/** Stores vectors x `[n, d]` in n records. */
export function encodeRecords(records: RecordRows, d: number, x: Float32Array): void {
  const views = viewsOf(records.bytes);
  forEachRecord(records, d, (form, codes, scales, i) => encodeRow(form, d, x, i * d, views, codes, views, scales));
}

/** Writes n records as vectors to `out` `[n, d]`. */
export function decodeRecords(records: RecordRows, d: number, out: Float32Array): void {
  const views = viewsOf(records.bytes);
  forEachRecord(records, d, (form, codes, scales, i) => decodeRow(form, d, views, codes, views, scales, out, i * d));
}
