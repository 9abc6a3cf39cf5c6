import { ops } from './instructions.ts';
import { Layout, type AddressBase, type BufferRange, type BufferSlice, type WorkShare } from './layout.ts';

/** Sizes of the memory that attention's kernels use. */
export interface Sizes {
  readonly threads: number;
  readonly activation: number;
  readonly ownBytes: number;
  partBytes(heads: number, headDim: number): number;
  tokenScratch(group: number, headDim: number): number;
  rowsScratch(headDim: number): number;
  packScratch(headDim: number): number;
  memoryScratch(keyDim: number, valueDim: number): number;
}

/** A value that an operation reads or writes, and the part of it that each thread accesses. */
export type Access = readonly [BufferSlice, WorkShare];

const padded = (numbers: number): number => 16 * Math.ceil(numbers / 16);

/**
 * The words of code for one row, or for up to `rows`, and the buffers that it uses. Puts a barrier wherever threads
 * would otherwise read or overwrite one another's work.
 */
export class CodeStream {
  readonly words: number[] = [];
  readonly layout: Layout;
  readonly sizes: Sizes;
  /** Allocated rows: 1, or a multiple of four. */
  readonly rows: number;
  /** How threads divide cheap operations: for one row each does all, otherwise each takes a share of the rows. */
  readonly share: 'all' | 'rows';
  /** Whether threads have claimed pieces of an operation since the last barrier. */
  #claimed = false;
  readonly #touched = new Set<BufferRange>();

  constructor(sizes: Sizes, rows: number) {
    this.sizes = sizes;
    this.layout = new Layout(rows === 1 ? 1 : 4 * Math.ceil(rows / 4), sizes.ownBytes);
    this.rows = this.layout.rows;
    this.share = rows === 1 ? 'all' : 'rows';
  }

  /** Number of bytes of code so far. */
  get length(): number {
    return 4 * this.words.length;
  }

  /** Allocates values of `width` numbers: shared, or, for one row, local to each thread. */
  value(width: number, shared: boolean = this.rows > 1): BufferSlice {
    const base: AddressBase = shared ? 1 : 2,
      stride = 4 * padded(width),
      room = this.layout.take(base, this.rows * stride);
    return { base, at: room.at, stride, room };
  }

  put(...words: readonly number[]): void {
    this.words.push(...words);
  }

  /**
   * Records what an operation reads and writes, and adds a barrier before one that could read, or overwrite, another
   * thread's part of an operation since the last barrier. `claims`: threads claim pieces on a first-come basis, which
   * only one operation between two barriers may do.
   */
  use(reads: readonly Access[], writes: readonly Access[], claims = false): void {
    const differ = (a: WorkShare | undefined, b: WorkShare): boolean =>
      a !== undefined && !(a === b && (a === 'rows' || a === 'columns'));
    const clash =
      (claims && this.#claimed) ||
      reads.some(([{ base, room }, share]) => base === 1 && differ(room.written, share)) ||
      writes.some(
        ([{ base, room }, share]) =>
          base === 1 && (differ(room.written, share) || [...room.read].some((other) => differ(other, share))),
      );
    if (clash) this.barrier();
    for (const [{ base, room }, share] of reads)
      if (base === 1) {
        room.read.add(share);
        this.#touched.add(room);
      }
    for (const [{ base, room }, share] of writes)
      if (base === 1) {
        room.written = share;
        this.#touched.add(room);
      }
    this.#claimed ||= claims;
  }

  /** Writes a barrier for all threads. @param claims whether the next operation is one whose pieces threads claim */
  barrier(claims = false): void {
    this.put(ops.barrier);
    this.#claimed = claims;
    for (const room of this.#touched) {
      room.written = undefined;
      room.read.clear();
    }
    this.#touched.clear();
  }
}
