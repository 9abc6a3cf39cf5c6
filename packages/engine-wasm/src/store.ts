import { hostStore, moveNumbers, type Storage, type Store } from '@kv/engine';
import { line } from './heap.ts';
import type { ThreadPool } from './thread-pool.ts';

/** A range of a heap. */
interface Range {
  readonly at: number;
  readonly bytes: number;
}

/** Caches in a heap. */
export interface HeapStore extends Store {
  /** Number of bytes allocated now. */
  readonly bytes: number;
}

/**
 * Returns cache storage in a heap, where its threads read and write it: keys, values and positions one after the other.
 * Storage that was not released is freed when its keys are garbage-collected.
 */
export function heapStore({ heap, kernels }: Pick<ThreadPool, 'heap' | 'kernels'>): HeapStore {
  const held = new Map<number, Range>();
  const release = (at: number): void => {
    const range = held.get(at);
    if (range === undefined) return;
    held.delete(at);
    heap.free(range.at, range.bytes);
  };
  const lost = new FinalizationRegistry(release);
  /** Returns storage at an allocated address. */
  const lay = (at: number, heads: number, headDim: number, capacity: number, rebased: boolean): Storage => {
    const slots = heads * capacity,
      size = 4 * slots * headDim,
      keys = heap.floats(at, slots * headDim);
    if (slots > 0) {
      held.set(at, { at, bytes: bytesOf(heads, headDim, capacity) });
      lost.register(keys, at, keys);
    }
    return {
      heads,
      headDim,
      capacity,
      keys,
      values: heap.floats(at + size, slots * headDim),
      positions: heap.words(at + 2 * size, slots),
      ...(rebased && { rotations: new Uint32Array(slots) }),
    };
  };
  const move = (from: Storage, to: Storage, kept: readonly Uint32Array[]): void => {
    const bytes = 4 * Math.max(0, ...kept.map(({ length }) => length)),
      places = heap.allocate(bytes);
    // keys of all heads before values, and those before positions: where storage shrinks they move down
    for (const [a, b, width] of [
      [from.keys, to.keys, from.headDim],
      [from.values, to.values, from.headDim],
      [from.positions, to.positions, 1],
    ] as const)
      for (const [g, slots] of kept.entries()) {
        heap.words(places, slots.length).set(slots);
        kernels.gather(
          a.byteOffset + 4 * width * g * from.capacity,
          b.byteOffset + 4 * width * g * to.capacity,
          4 * width,
          places,
          slots.length,
        );
      }
    for (const [g, slots] of kept.entries())
      if (from.rotations && to.rotations)
        moveNumbers(from.rotations, to.rotations, g * from.capacity, g * to.capacity, slots);
    heap.free(places, bytes);
  };
  const give = (first: Float32Array): void => {
    if (first.length === 0) return;
    lost.unregister(first);
    release(first.byteOffset);
  };
  return {
    get bytes() {
      let sum = 0;
      for (const range of held.values()) sum += range.bytes;
      return sum;
    },
    inPlace: true,
    create: (heads, headDim, capacity, rebased) =>
      lay(
        heads * capacity === 0 ? 0 : heap.allocate(bytesOf(heads, headDim, capacity)),
        heads,
        headDim,
        capacity,
        rebased,
      ),
    pack(from, kept, capacity) {
      const { heads, headDim, keys, rotations } = from,
        at = keys.byteOffset,
        before = bytesOf(heads, headDim, from.capacity),
        after = bytesOf(heads, headDim, capacity);
      if (capacity === from.capacity) {
        move(from, from, kept);
        return from;
      }
      if (capacity === 0) {
        give(keys);
        return hostStore.create(heads, headDim, 0, rotations !== undefined);
      }
      lost.unregister(keys);
      const to = lay(at, heads, headDim, capacity, rotations !== undefined);
      move(from, to, kept);
      if (after < before) heap.free(at + after, before - after);
      return to;
    },
    release: ({ keys }) => give(keys),
    createNumbers(count) {
      if (count === 0) return new Float32Array(0);
      const bytes = line * Math.ceil((4 * count) / line),
        at = heap.allocate(bytes),
        numbers = heap.floats(at, count).fill(0);
      held.set(at, { at, bytes });
      lost.register(numbers, at, numbers);
      return numbers;
    },
    releaseNumbers: give,
  };
}

/** Returns the bytes of storage, in whole cache lines. */
const bytesOf = (heads: number, headDim: number, capacity: number): number =>
  line * Math.ceil((4 * heads * capacity * (2 * headDim + 1)) / line);
