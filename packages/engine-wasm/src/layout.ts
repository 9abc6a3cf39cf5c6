/** The base of an address: absolute, the shared memory, or a thread's own memory. */
export type AddressBase = 0 | 1 | 2;

/** Rows of numbers in a buffer. */
export interface BufferSlice {
  readonly base: AddressBase;
  /** Bytes from the base, a multiple of 16. */
  readonly at: number;
  /** Bytes from one row to the next. */
  readonly stride: number;
  /** The allocation that it is a part of. */
  readonly room: BufferRange;
}

/** An allocated range, and the accesses to it since the last barrier. */
export interface BufferRange {
  readonly base: AddressBase;
  readonly at: number;
  readonly bytes: number;
  written?: WorkShare | undefined;
  readonly read: Set<WorkShare>;
}

/**
 * The part of a value that each thread accesses: all of it, a share of rows or of columns, or pieces claimed on a
 * first-come basis.
 */
export type WorkShare = 'all' | 'rows' | 'columns' | 'pieces';

const line = 64;

/** An allocator over two bases, used while code is written. */
export class Layout {
  /** Allocated rows. */
  readonly rows: number;
  readonly #ends: Record<AddressBase, number>;
  readonly #free: BufferRange[] = [];

  /** @param own bytes of each thread's own memory that are taken already */
  constructor(rows: number, own: number) {
    this.rows = rows;
    this.#ends = { 0: 0, 1: 0, 2: line * Math.ceil(own / line) };
  }

  /** Bytes needed of shared memory, and of each thread's own. */
  get shared(): number {
    return this.#ends[1];
  }
  get own(): number {
    return this.#ends[2];
  }

  take(base: 1 | 2, bytes: number): BufferRange {
    const size = line * Math.ceil(bytes / line),
      index = this.#free.findIndex((room) => room.base === base && room.bytes === size);
    if (index >= 0) return this.#free.splice(index, 1)[0];
    const at = this.#ends[base];
    this.#ends[base] += size;
    return { base, at, bytes: size, read: new Set() };
  }

  /** Frees a range. Its accesses since the last barrier still matter. */
  give(room: BufferRange): void {
    this.#free.push(room);
  }
}
