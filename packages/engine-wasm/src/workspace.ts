import type { Layout } from './layout.ts';
import type { Heap } from './heap.ts';

/** The owner of a heap and of threads that share it. */
interface HeapOwner {
  readonly heap: Heap;
  readonly threads: number;
}

/** A buffer in a heap that grows on demand; growing loses its contents. */
export class GrowableBuffer {
  readonly #pool: HeapOwner;
  #at = 0;
  #bytes = 0;

  constructor(pool: HeapOwner) {
    this.#pool = pool;
  }

  /**
   * Returns the address of at least `bytes` bytes. They are zeros at first, so that rows never written hold no
   * subnormal numbers, which are slow.
   */
  at(bytes: number): number {
    if (bytes <= this.#bytes) return this.#at;
    const { heap } = this.#pool;
    this.free();
    this.#at = heap.allocate(bytes);
    this.#bytes = bytes;
    heap.bytes(this.#at, bytes).fill(0);
    return this.#at;
  }

  free(): void {
    if (this.#bytes > 0) this.#pool.heap.free(this.#at, this.#bytes);
    this.#bytes = 0;
  }
}

/** Scratch of code: memory that its threads share, and each thread's own. */
export class ScratchSpace {
  readonly #pool: HeapOwner;
  readonly #shared: GrowableBuffer;
  readonly #own: GrowableBuffer;

  constructor(pool: HeapOwner) {
    this.#pool = pool;
    this.#shared = new GrowableBuffer(pool);
    this.#own = new GrowableBuffer(pool);
  }

  /** Returns scratch for code of this layout. */
  for({ shared, own }: Layout): {
    readonly shared: number;
    readonly own: number;
    readonly ownBytes: number;
  } {
    return { shared: this.#shared.at(shared), own: this.#own.at(own * this.#pool.threads), ownBytes: own };
  }

  free(): void {
    this.#shared.free();
    this.#own.free();
  }
}
