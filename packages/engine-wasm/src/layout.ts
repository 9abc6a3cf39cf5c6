/** Where an address counts from: nothing, what all threads share, or what a thread has of its own. */
export type AddressBase = 0 | 1 | 2;

/** Rows of numbers somewhere. */
export interface BufferSlice {
  readonly base: AddressBase;
  /** Bytes from the base, a multiple of 16. */
  readonly at: number;
  /** Bytes from one row to the next. */
  readonly stride: number;
  /** What it is a part of. */
  readonly room: BufferRange;
}

/** A range that was given out, and who touched it since threads last met. */
export interface BufferRange {
  readonly base: AddressBase;
  readonly at: number;
  readonly bytes: number;
  written?: WorkShare | undefined;
  readonly read: Set<WorkShare>;
}

/**
 * Whose part of a value an operation touches: everybody all of it, a share of rows or of columns each, or pieces that
 * whoever comes first takes.
 */
export type WorkShare = 'all' | 'rows' | 'columns' | 'pieces';

const line = 64;

/** Places of two bases, given out and taken back while code is written. */
export class Layout {
  /** Rows that there is room for. */
  readonly rows: number;
  readonly #ends: Record<AddressBase, number>;
  readonly #free: BufferRange[] = [];

  /** @param own bytes that are taken of each thread's own */
  constructor(rows: number, own: number) {
    this.rows = rows;
    this.#ends = { 0: 0, 1: 0, 2: line * Math.ceil(own / line) };
  }

  /** Bytes that are wanted of what is shared, and of each thread's own. */
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

  /** Nobody reads it any more; who touched it since threads last met still matters. */
  give(room: BufferRange): void {
    this.#free.push(room);
  }
}
