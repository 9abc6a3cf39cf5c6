import type { HostArray } from '@kv/core';

/** How often the id of each of the first `length` positions occurs among them, f32 `[1, length]`. */
export function counts(ids: readonly number[], length: number): HostArray {
  const seen = new Map<number, number>();
  for (let i = 0; i < length; i++) seen.set(ids[i], (seen.get(ids[i]) ?? 0) + 1);
  return { data: Float32Array.from({ length }, (_, i) => seen.get(ids[i])!), shape: [1, length] };
}
