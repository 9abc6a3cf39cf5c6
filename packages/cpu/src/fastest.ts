import { elementwise } from './elementwise.ts';
import { createKernel, pieceBytes, type CpuKernel } from './kernel.ts';
import { reduceGroups, normaliseRows, plainProducts, reduce } from './reduce.ts';
import { simdVectors } from './simd.ts';
import { firstBad, groupSlots, pool, rank, select, take } from './slots.ts';
import type { Vectors } from './vectors.ts';

/** Plain loops: the reference, used where WebAssembly has no SIMD. */
export const plainVectors: Vectors = {
  grouped: reduceGroups,
  pool,
  normaliseRows,
  firstBad,
  select,
  elementwise,
  reduce,
  take,
  groupSlots,
  rank,
  products: plainProducts,
  reference: (kernel) => kernel.ref,
};

let shared: Vectors | undefined, kernel: CpuKernel | undefined;

/**
 * Returns the fastest operations in this process. One kernel serves all callers, since it holds nothing between calls.
 */
export function vectors(): Vectors {
  if (!shared) {
    kernel = createKernel();
    shared = kernel ? simdVectors(kernel) : plainVectors;
  }
  return shared;
}

/**
 * Returns the bytes of WebAssembly memory that operations on the CPU use in this process, for all callers. They grow to
 * the size of the largest operation so far, which is bounded by slots, heads and head width, and are never released.
 */
export const scratchBytes = (): number => (kernel?.bytes ?? 0) + pieceBytes();
