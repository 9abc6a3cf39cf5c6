import { elementwise } from './elementwise.ts';
import { createKernel, pieceBytes, type CpuKernel } from './kernel.ts';
import { reduceGroups, normaliseRows, plainProducts, reduce } from './reduce.ts';
import { simdVectors } from './simd.ts';
import { firstBad, groupSlots, pool, rank, select, take } from './slots.ts';
import type { Vectors } from './vectors.ts';

/** Plain loops: the reference, and what runs where WebAssembly has no SIMD. */
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

/** The operations of this process: one kernel serves all, since it holds nothing between calls. */
export function vectors(): Vectors {
  if (!shared) {
    kernel = createKernel();
    shared = kernel ? simdVectors(kernel) : plainVectors;
  }
  return shared;
}

/**
 * Bytes of WebAssembly memory that operations on the CPU work in, in this process, whatever runs them. They grow to what
 * the largest operation so far took, which is bounded by slots, heads and head width, and are not given back.
 */
export const scratchBytes = (): number => (kernel?.bytes ?? 0) + pieceBytes();
