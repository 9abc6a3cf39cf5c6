import type { Rows } from './encode.ts';

/**
 * Slots at levels of their own: a record a slot and KV head, one after the other in the order of slots in each head's
 * part. A record is its level's key codes, key scales, value codes and value scales.
 */
export interface Records {
  /** `[G, room]` */
  readonly bytes: Uint8Array;
  /** Bytes of a head's records. */
  readonly room: number;
  /**
   * `[G, capacity]`: level in the upper 3 bits, below it where the record begins among all bytes, in words of 4. Slots
   * not in use yet have the sequence's own form.
   */
  readonly table: Uint32Array;
}

/** Keys or values. */
export type CachePart = 'keys' | 'values';

/**
 * Keys or values of all slots: rows, or `mixed` where slots have levels of their own, whose codes are then the table of
 * records and whose scales their bytes.
 */
export type CacheRows = Rows | { readonly form: 'mixed'; readonly codes: Uint8Array; readonly scales: Uint8Array };

/** Returns rows of one form. @throws TypeError for others */
export function plainRows(rows: CacheRows): Rows {
  if (rows.form === 'mixed') throw new TypeError('expected rows of one form, got records');
  return rows;
}

/**
 * Bounds on what was rounded off a key and off a value of a layer before they were stored as they are now; Infinity where
 * that is not known.
 */
export type EarlierRounding = Readonly<Record<CachePart, number>>;
