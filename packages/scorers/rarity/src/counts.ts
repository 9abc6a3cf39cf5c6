import type { HostArray } from '@kv/core';

/** The newest counts of each sequence: every layer asks for the same. */
const known = new WeakMap<readonly number[], HostArray>();

/**
 * Counts how often the id of each of the first `length` positions occurs among them, f32 `[1, length]`. `ids` may only
 * be appended to.
 */
export function counts(ids: readonly number[], length: number): HostArray {
  const before = known.get(ids);
  if (before?.shape[1] === length) return before;
  const seen = new Map<number, number>();
  for (let i = 0; i < length; i++) seen.set(ids[i], (seen.get(ids[i]) ?? 0) + 1);
  const data = new Float32Array(length);
  for (let i = 0; i < length; i++) data[i] = seen.get(ids[i]) ?? 0;
  const row: HostArray = { data, shape: [1, length] };
  known.set(ids, row);
  return row;
}
