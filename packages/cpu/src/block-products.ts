import type { Products } from '@kv/core';

/**
/**
 * What is made of the rows of a block: themselves, their norms, sums, of every `TOGETHER` rows, of their softmax or of
 * errors, where they lie the softmax of what each sees, or where each is largest.
 */
export const folds = { rows: 0, norm1: 1, norm2: 2, mass: 3, errors: 4, attention: 5, top: 6 } as const;
export type FoldKind = (typeof folds)[keyof typeof folds];
/** Rows whose mass or errors are summed together. */
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
 * made of one before the next. What is made by weights gets a block's from `weigh`.
 */
type Blocks = (
  q: Float32Array,
  x: Float32Array,
  d: number,
  fold: FoldKind,
  take: (block: Block) => void,
  weigh?: (first: number, count: number, to: number, ld: number) => void,
) => void;

/** Numbers of q xᵀ that are held at a time. */
const HELD = 2 ** 19;

/** How many rows of n numbers make a block. */
export const rowsHeld = (n: number): number => TOGETHER * Math.max(1, Math.floor(HELD / TOGETHER / Math.max(1, n)));

/** Products of many vectors in f32, by blocks of a memory whose `floats` hold until the next one. */
export function blockProducts(
  floats: (at: number, length: number) => Float32Array,
  blocks: Blocks,
): Pick<Products, 'multiply' | 'mass' | 'attend' | 'reach' | 'errors' | 'nearest'> {
  /** Copies `count` rows of p `[.., n]`. */
  const putRows = (p: Float32Array, n: number, first: number, count: number, to: number, ld: number): void => {
    if (ld === 4 * n) floats(to, count * n).set(p.subarray(first * n, (first + count) * n));
    else for (let r = 0; r < count; r++) floats(to + r * ld, n).set(p.subarray((first + r) * n, (first + r + 1) * n));
  };
  /** Sums over the rows of each head. */
  const sums =
    (fold: FoldKind) =>
    (q: Float32Array, x: Float32Array, d: number, p: Float32Array | undefined, out: Float32Array): void => {
      const n = x.length / d,
        each = q.length / (out.length / Math.max(1, n)), // numbers of a head's queries
        all = new Float64Array(out.length),
        step = each % (TOGETHER * d) === 0 ? q.length : each; // a sum is of one head
      if (out.length > 0 && q.length > 0)
        for (let from = 0; from < q.length; from += step)
          blocks(
            q.subarray(from, from + step),
            x,
            d,
            fold,
            ({ first, count, at, ld }) => {
              for (let r = 0; r < count; r += TOGETHER, at += ld) {
                const part = floats(at, n),
                  to = Math.floor((from + (first + r) * d) / each) * n;
                for (let i = 0; i < n; i++) all[to + i] += part[i];
              }
            },
            p && ((first, count, to, ld) => putRows(p, n, from / d + first, count, to, ld)),
          );
      out.set(all);
    };
  const [mass, errors] = [sums(folds.mass), sums(folds.errors)];
  const takeRows =
    (n: number, out: Float32Array) =>
    ({ first, count, at, ld }: Block): void => {
      if (ld === 4 * n) out.set(floats(at, count * n), first * n);
      else for (let r = 0; r < count; r++) out.set(floats(at + r * ld, n), (first + r) * n);
    };
  return {
    multiply(q, x, d, out) {
      if (out.length > 0) blocks(q, x, d, folds.rows, takeRows(x.length / d, out));
    },
    attend(q, x, d, seen, out) {
      if (out.length > 0)
        blocks(q, x, d, folds.attention, takeRows(x.length / d, out), (first, count, to) =>
          floats(to, count).set(seen.subarray(first, first + count)),
        );
    },
    mass: (q, x, d, out) => mass(q, x, d, undefined, out),
    errors,
    reach(q, w, d, p, out) {
      out.fill(0);
      if (out.length > 0 && w.length > 0)
        blocks(q, w, d, p, ({ first, count, at }) => out.set(floats(at, count), first));
    },
    nearest(q, x, d, out) {
      if (out.length > 0 && x.length > 0)
        blocks(q, x, d, folds.top, ({ first, count, at }) => out.set(floats(at, count), first));
    },
  };
}
