import type { WasmMemory } from '@kv/core';
import { extents } from '@kv/core/shared';

/**
 * Writes, for each vector of x `[n, d]`, the standard deviation over its channels (divided by d - 1), each channel
 * scaled to the bounds of the run of `size` vectors at the same place in `next` `[n, d]`, 0 for a channel without
 * extent: `[n]`.
 */
export type Spreads = (x: Float32Array, next: Float32Array, d: number, size: number, out: Float32Array) => void;

/** `Spreads` by plain loops. */
export const plainSpreads: Spreads = (x, next, d, size, out) => {
  const low = new Float32Array(Math.ceil(next.length / d / size) * d),
    high = new Float32Array(low.length);
  extents(next, d, size, low, high);
  for (let i = 0; i * d < x.length; i++) {
    let sum = 0,
      square = 0;
    for (let c = 0, at = Math.floor(i / size) * d; c < d; c++, at++) {
      const share = high[at] > low[at] ? (x[i * d + c] - low[at]) / (high[at] - low[at]) : 0;
      sum += share;
      square += share * share;
    }
    out[i] = Math.sqrt(Math.max(0, square - (sum * sum) / d) / (d - 1));
  }
};

/** The functions of kernel/lag.ts; pointers are bytes. */
interface LagModule extends WasmMemory {
  extents(x: number, n: number, d: number, size: number, low: number, high: number): void;
  spreads(x: number, n: number, d: number, size: number, low: number, high: number, work: number, out: number): void;
}
/** Vectors processed together: they fit the second-level cache. */
const MANY = 512;

/** Returns `Spreads` that runs the module of kernel/lag.ts. */
export const spreadsBy =
  (k: LagModule): Spreads =>
  (x, next, d, each, out) => {
    const n = x.length / d,
      size = Math.min(each, Math.max(1, n)),
      some = size * Math.max(1, Math.floor(MANY / size)),
      extent = 4 * d * (some / size),
      [block = 0, low = 0, high = 0, work = 0, found = 0] = k.place(
        4 * Math.min(n, some) * d,
        extent,
        extent,
        8 * d,
        4 * some,
      );
    for (let first = 0; first < n; first += some) {
      const count = Math.min(some, n - first);
      k.putVectors(next, d, d, first, count, block);
      k.extents(block, count, d, size, low, high);
      k.putVectors(x, d, d, first, count, block);
      k.spreads(block, count, d, size, low, high, work, found);
      out.set(k.f32().subarray(found / 4, found / 4 + count), first);
    }
  };
