import type { WasmMemory } from '@kv/core';
import type { extents } from '@kv/core/shared';

/** A function that computes the bounds of pages, channel by channel. */
export type Extents = typeof extents;

/** The function of kernel/page-bounds.ts; pointers are bytes. */
interface PageModule extends WasmMemory {
  extents(x: number, n: number, d: number, size: number, low: number, high: number): void;
}
/** Vectors processed together: they fit the second-level cache. */
const MANY = 512;

/** Returns `Extents` that runs the module of kernel/page-bounds.ts. */
export const extentsBy =
  (k: PageModule): Extents =>
  (x, d, each, low, high) => {
    const n = x.length / d,
      size = Math.min(each, Math.max(1, n)),
      some = size * Math.max(1, Math.floor(MANY / size)),
      extent = 4 * d * (some / size),
      [block = 0, lows = 0, highs = 0] = k.place(4 * Math.min(n, some) * d, extent, extent);
    for (let first = 0, to = 0; first < n; first += some) {
      const count = Math.min(some, n - first),
        found = d * Math.ceil(count / size);
      k.putVectors(x, d, d, first, count, block);
      k.extents(block, count, d, size, lows, highs);
      low.set(k.f32().subarray(lows / 4, lows / 4 + found), to);
      high.set(k.f32().subarray(highs / 4, highs / 4 + found), to);
      to += found;
    }
  };
