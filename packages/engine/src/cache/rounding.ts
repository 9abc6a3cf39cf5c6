import type { Slots } from '../memory/snapshot.ts';
import { plainRows, type CachePart, type EarlierRounding } from './cache-rows.ts';
import { roundingBound } from './encode.ts';
import type { StorageForm } from './form.ts';
import { hasRecords, recordsBound } from './records.ts';
import type { Storage } from './storage.ts';

/** Returns a bound on what the present stored form of a head's first n slots has rounded off keys or values. */
export const storedBound = (
  storage: Pick<Storage, CachePart | 'records' | 'headDim' | 'capacity' | 'form'>,
  part: CachePart,
  g: number,
  n: number,
): number =>
  hasRecords(storage)
    ? recordsBound(storage, part, g, n)
    : roundingBound(plainRows(storage[part]), storage.headDim, g * storage.capacity, n);

/** Returns what was rounded off slots before, once they are stored in a form. Files of older releases do not say it. */
export function roundingAfter(slots: Slots, form: StorageForm, headDim: number): EarlierRounding {
  const { length } = slots.positions,
    unknown = slots.rotations !== undefined && (slots.form !== 'f32' || slots.records !== undefined),
    { keys, values } = slots.rounded ?? (unknown ? { keys: Infinity, values: Infinity } : { keys: 0, values: 0 });
  if (slots.form === form) return { keys, values };
  const whole = { ...slots, headDim, capacity: length };
  return {
    keys: keys + storedBound(whole, 'keys', 0, length),
    values: values + storedBound(whole, 'values', 0, length),
  };
}
