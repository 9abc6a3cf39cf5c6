/** Where an address counts from: nothing, what all threads share, or what a thread has of its own. */
export type Base = 0 | 1 | 2;

/** Rows of numbers somewhere. */
export interface Place {
  readonly base: Base;
  /** Bytes from the base, a multiple of 16. */
  readonly at: number;
  /** Bytes from one row to the next. */
  readonly stride: number;
  /** What it is a part of. */
  readonly room: Room;
}

/** A range that was given out, and who touched it since threads last met. */
export interface Room {
  readonly base: Base;
  readonly at: number;
  readonly bytes: number;
  written?: Share | undefined;
  readonly read: Set<Share>;
}

/**
 * Whose part of a value an operation touches: everybody all of it, a share of rows or of columns each, or pieces that
 * whoever comes first takes.
 */
export type Share = 'all' | 'rows' | 'columns' | 'pieces';

const line = 64;

/** Places of two bases, given out and taken back while code is written. */
export class Layout {
  /** Rows that there is room for. */
  readonly rows: number;
  readonly #ends: Record<Base, number>;
  readonly #free: Room[] = [];

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

  take(base: 1 | 2, bytes: number): Room {
    const size = line * Math.ceil(bytes / line),
      index = this.#free.findIndex((room) => room.base === base && room.bytes === size);
    if (index >= 0) return this.#free.splice(index, 1)[0];
    const at = this.#ends[base];
    this.#ends[base] += size;
    return { base, at, bytes: size, read: new Set() };
  }

  /** Nobody reads it any more; who touched it since threads last met still matters. */
  give(room: Room): void {
    this.#free.push(room);
  }
}
