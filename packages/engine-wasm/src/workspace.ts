import type { BytecodeWriter } from './code.ts';
import type { Heap } from './heap.ts';

/** What has a heap, and threads that share it. */
interface HeapOwner {
  readonly heap: Heap;
  readonly threads: number;
}

/** Room of a heap that grows to what is asked for; what it held is lost then. */
export class GrowableBuffer {
  readonly #team: HeapOwner;
  #at = 0;
  #bytes = 0;

  constructor(team: HeapOwner) {
    this.#team = team;
  }

  /** Where there are so many bytes: zeros at first, so that rows which nobody wrote are not slow, as subnormal ones are. */
  at(bytes: number): number {
    if (bytes <= this.#bytes) return this.#at;
    const { heap } = this.#team;
    this.free();
    this.#at = heap.allocate(bytes);
    this.#bytes = bytes;
    heap.bytes(this.#at, bytes).fill(0);
    return this.#at;
  }

  free(): void {
    if (this.#bytes > 0) this.#team.heap.free(this.#at, this.#bytes);
    this.#bytes = 0;
  }
}

/** Where code works: what its threads share, and what each has of its own. */
export class ScratchSpace {
  readonly #team: HeapOwner;
  readonly #shared: GrowableBuffer;
  readonly #own: GrowableBuffer;

  constructor(team: HeapOwner) {
    this.#team = team;
    this.#shared = new GrowableBuffer(team);
    this.#own = new GrowableBuffer(team);
  }

  /** Room for code of this layout. */
  for({ shared, own }: BytecodeWriter['layout']): {
    readonly shared: number;
    readonly own: number;
    readonly ownBytes: number;
  } {
    return { shared: this.#shared.at(shared), own: this.#own.at(own * this.#team.threads), ownBytes: own };
  }

  free(): void {
    this.#shared.free();
    this.#own.free();
  }
}
