import { KvError } from '@kv/core';
import { UnsupportedModelError } from './unsupported-model.ts';

/** Bytes of a page of WebAssembly memory, and the maximum number of pages. */
const page = 65_536,
  mostPages = 65_536;
/** Bytes reserved for the module: its constants, and @kv/cpu's after byte 1024. */
const reserved = 2048;
/** Alignment of allocations: a cache line. */
export const line = 64;

interface Range {
  at: number;
  end: number;
}

/** An allocator over a WebAssembly memory that threads share. */
export class Heap {
  readonly memory: WebAssembly.Memory;
  /** Bytes that the memory can grow to. */
  readonly most: number;
  /** Free ranges below `#end`, ascending, no two adjacent. */
  readonly #free: Range[] = [];
  /** All buffers that this memory has had, one per size. */
  readonly #buffers = new WeakSet<object>();
  #end: number = reserved;
  #live = 0;

  /** @throws KvError where there is no shared memory. */
  constructor() {
    [this.memory, this.most] = sharedMemory();
  }

  /** Number of bytes allocated now. */
  get live(): number {
    return this.#live;
  }

  /** Allocates `bytes`, zeroed only if never used before. @throws KvError where the memory cannot grow to it. */
  allocate(bytes: number): number {
    const size = Math.max(line, line * Math.ceil(bytes / line)),
      index = this.#free.findIndex(({ at, end }) => end - at >= size);
    this.#live += size;
    if (index >= 0) {
      const range = this.#free[index],
        { at } = range;
      range.at += size;
      if (range.at === range.end) this.#free.splice(index, 1);
      return at;
    }
    // a free range at the very end grows
    const last = this.#free.at(-1),
      at = last?.end === this.#end ? last.at : this.#end;
    try {
      this.#grow(at + size);
    } catch (error) {
      this.#live -= size;
      throw error;
    }
    if (at !== this.#end) this.#free.pop();
    this.#end = at + size;
    return at;
  }

  /** Frees an allocation of `bytes`. */
  free(at: number, bytes: number): void {
    const size = Math.max(line, line * Math.ceil(bytes / line)),
      after = this.#free.findIndex((range) => range.at > at),
      index = after < 0 ? this.#free.length : after,
      [before, next] = [this.#free[index - 1], this.#free[index]];
    this.#live -= size;
    const joins = before?.end === at,
      joined = next?.at === at + size;
    if (joins && joined) {
      before.end = next.end;
      this.#free.splice(index, 1);
    } else if (joins) before.end += size;
    else if (joined) next.at = at;
    else this.#free.splice(index, 0, { at, end: at + size });
  }

  bytes(at: number, length: number): Uint8Array {
    const { buffer } = this.memory;
    this.#buffers.add(buffer);
    return new Uint8Array(buffer, at, length);
  }
  floats(at: number, length: number): Float32Array {
    const { buffer } = this.memory;
    this.#buffers.add(buffer);
    return new Float32Array(buffer, at, length);
  }
  /** Returns whether an array lies in this memory; then its `byteOffset` is its address. */
  holds({ buffer }: ArrayBufferView): boolean {
    return this.#buffers.has(buffer);
  }
  doubles(at: number, length: number): Float64Array {
    return new Float64Array(this.memory.buffer, at, length);
  }
  words(at: number, length: number): Uint32Array {
    return new Uint32Array(this.memory.buffer, at, length);
  }

  #grow(bytes: number): void {
    const pages = Math.ceil((bytes - this.memory.buffer.byteLength) / page);
    if (pages <= 0) return;
    try {
      this.memory.grow(pages);
    } catch {
      throw new UnsupportedModelError(
        `room for ${bytes} bytes of WebAssembly memory, which ends at ${this.most}, got ${this.memory.buffer.byteLength}`,
      );
    }
  }
}

/** Creates a shared memory that may grow to 4 GiB, or as far as this process can reserve addresses. */
function sharedMemory(): [memory: WebAssembly.Memory, most: number] {
  let last: unknown;
  for (let maximum = mostPages; maximum >= mostPages / 16; maximum /= 2)
    try {
      return [new WebAssembly.Memory({ initial: 1, maximum, shared: true }), page * maximum];
    } catch (error) {
      last = error;
    }
  throw new KvError('wasm', `expected a shared WebAssembly memory, got ${last instanceof Error ? last.message : last}`);
}
