import type { Products } from '@kv/core';

/**
 * What a block computes from its rows: the rows themselves, their norms, sums over every `TOGETHER` rows of their
 * softmax (`mass`) or of their errors, the softmax over the vectors that each row sees (`attention`), or the index of
 * each row's largest (`top`).
 */
export const folds = { rows: 0, norm1: 1, norm2: 2, mass: 3, errors: 4, attention: 5, top: 6 } as const;
/** Number of a fold in the WebAssembly module. */
export type FoldKind = (typeof folds)[keyof typeof folds];
/** Rows whose mass or errors are summed together. */
export const TOGETHER = 32;

/** The result of `count` rows of q xᵀ from row `first` on, in a kernel's memory; `ld` is the row stride in bytes. */
interface Block {
  readonly first: number;
  readonly count: number;
  readonly at: number;
  readonly ld: number;
}

/**
 * Computes q xᵀ of q `[rows, d]` and x `[n, d]`, neither of them empty, in f32, block after block; `take` reads the
 * result of one block before the next. Folds that need weights get those of a block from `weigh`.
 */
type Blocks = (
  q: Float32Array,
  x: Float32Array,
  d: number,
  fold: FoldKind,
  take: (block: Block) => void,
  weigh?: (first: number, count: number, to: number, ld: number) => void,
) => void;

/** Numbers of q xᵀ held at a time. */
const HELD = 2 ** 19;

/** Returns the number of rows of n numbers in a block. */
export const rowsHeld = (n: number): number => TOGETHER * Math.max(1, Math.floor(HELD / TOGETHER / Math.max(1, n)));

/**
 * Returns products of many vectors in f32, computed by blocks in a memory whose `floats` are valid until the next
 * block.
 */
export function blockProducts(
  floats: (at: number, length: number) => Float32Array,
  blocks: Blocks,
): Pick<Products, 'multiply' | 'mass' | 'attend' | 'reach' | 'errors' | 'nearest'> {
  /** Copies `count` rows of p `[.., n]`. */
  const putRows = (p: Float32Array, n: number, first: number, count: number, to: number, ld: number): void => {
    if (ld === 4 * n) floats(to, count * n).set(p.subarray(first * n, (first + count) * n));
    else for (let r = 0; r < count; r++) floats(to + r * ld, n).set(p.subarray((first + r) * n, (first + r + 1) * n));
  };
  /** Computes sums over the rows of each head. */
  const sums =
    (fold: FoldKind) =>
    (q: Float32Array, x: Float32Array, d: number, p: Float32Array | undefined, out: Float32Array): void => {
      const n = x.length / d,
        each = q.length / (out.length / Math.max(1, n)), // numbers of a head's queries
        all = new Float64Array(out.length),
        step = each % (TOGETHER * d) === 0 ? q.length : each; // a sum must not cross heads
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
