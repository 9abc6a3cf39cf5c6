import type { Products } from '../kernel.ts';

/** What is made of the rows of a block: themselves, their norms, or the sum of their softmax, of every `TOGETHER` rows. */
export const folds = { rows: 0, norm1: 1, norm2: 2, mass: 3 } as const;
export type Fold = (typeof folds)[keyof typeof folds];
/** Rows whose mass is summed together. */
export const TOGETHER = 32;

/** `count` rows of q xᵀ from row `first` on: what is made of them in a kernel's memory, `ld` bytes from one to the next. */
interface Block {
  readonly first: number;
  readonly count: number;
  readonly at: number;
  readonly ld: number;
}

/**
 * Computes q xᵀ of q `[rows, d]` and x `[n, d]`, at least a number each, in f32, block after block; `take` reads what is
 * made of one before the next.
 */
type Blocks = (q: Float32Array, x: Float32Array, d: number, fold: Fold, take: (block: Block) => void) => void;

/** Numbers of q xᵀ that are held at a time. */
const HELD = 2 ** 19;

/** How many rows of n numbers make a block. */
export const rowsHeld = (n: number): number => TOGETHER * Math.max(1, Math.floor(HELD / TOGETHER / Math.max(1, n)));

/** Products of many vectors in f32, by blocks of a memory whose `floats` hold until the next one. */
export function blockProducts(
  floats: (at: number, length: number) => Float32Array,
  blocks: Blocks,
): Pick<Products, 'multiply' | 'mass' | 'reach'> {
  return {
    multiply(q, x, d, out) {
      const n = x.length / d;
      if (out.length > 0)
        blocks(q, x, d, folds.rows, ({ first, count, at, ld }) => {
          if (ld === 4 * n) out.set(floats(at, count * n), first * n);
          else for (let r = 0; r < count; r++) out.set(floats(at + r * ld, n), (first + r) * n);
        });
    },
    mass(q, x, d, out) {
      const n = x.length / d,
        each = q.length / (out.length / Math.max(1, n)), // numbers of a head's queries
        sums = new Float64Array(out.length),
        step = each % (TOGETHER * d) === 0 ? q.length : each; // a sum is of one head
      if (out.length > 0 && q.length > 0)
        for (let from = 0; from < q.length; from += step)
          blocks(q.subarray(from, from + step), x, d, folds.mass, ({ first, count, at, ld }) => {
            for (let r = 0; r < count; r += TOGETHER, at += ld) {
              const part = floats(at, n),
                to = Math.floor((from + (first + r) * d) / each) * n;
              for (let i = 0; i < n; i++) sums[to + i] += part[i];
            }
          });
      out.set(sums);
    },
    reach(q, w, d, p, out) {
      out.fill(0);
      if (out.length > 0 && w.length > 0)
        blocks(q, w, d, p, ({ first, count, at }) => out.set(floats(at, count), first));
    },
  };
}
