import { mulberry } from '@kv/core/shared';
import { sumOf } from '@kv/core/shared';

/** Returns a generator of pseudo-random numbers in [0, 1). A case prints only its seed, and shrinks in its sizes. */
export const random = (seed: number): (() => number) => mulberry(seed ^ 0x9e3779b9);

/** Returns 0 .. n - 1 in random order. */
export function shuffle(n: number, next: () => number): number[] {
  const order = Array.from({ length: n }, (_, i) => i);
  for (let i = n - 1; i > 0; i--) {
    const j = Math.floor(next() * (i + 1));
    [order[i], order[j]] = [order[j], order[i]];
  }
  return order;
}

/**
 * Distributions of the weights of a row: spread out, with exact zeros, with ties, nearly all on one slot, all equal, or
 * all 0.
 */
export const WEIGHTS = ['spread', 'zeros', 'ties', 'dominant', 'uniform', 'none'] as const;
export type WeightKind = (typeof WEIGHTS)[number];
/** Returns `n` numbers of at least 0. */
export function weights(kind: WeightKind, n: number, next: () => number): number[] {
  const top = Math.floor(next() * n);
  return Array.from({ length: n }, (_, i) => {
    const x = next();
    if (kind === 'zeros') return x < 0.5 ? 0 : x;
    if (kind === 'ties') return Math.ceil(x * 3);
    if (kind === 'dominant') return i === top ? 1 : x < 0.5 ? 0 : x * 1e-7;
    return kind === 'uniform' ? 1 : kind === 'none' ? 0 : x + 1e-3;
  });
}
/** Returns a row of weights that sums to 1. */
export function simplex(kind: WeightKind, n: number, next: () => number): number[] {
  const row = weights(kind === 'none' ? 'uniform' : kind, n, next),
    total = sumOf(row);
  return total > 0 ? row.map((x) => x / total) : row.map(() => 1 / n);
}

/**
 * Distributions of vectors: anywhere, some of them zero, all the same, long, or on a coarse grid with many equal ones.
 */
export const VECTORS = ['spread', 'zeros', 'same', 'long', 'grid'] as const;
export type VectorKind = (typeof VECTORS)[number];
/** Returns `count` vectors of `dim` numbers. */
export function vectors(kind: VectorKind, count: number, dim: number, next: () => number): number[] {
  const first = Array.from({ length: dim }, () => next() * 2 - 1);
  return Array.from({ length: count }, () => {
    const zero = kind === 'zeros' && next() < 0.4;
    return first.map((x) =>
      zero
        ? 0
        : kind === 'same'
          ? x
          : kind === 'grid'
            ? Math.floor(next() * 3) - 1
            : (next() * 2 - 1) * (kind === 'long' ? 1000 : 1),
    );
  }).flat();
}
