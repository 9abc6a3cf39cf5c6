import type { Storage, Store } from '../cache/storage.ts';
import type { Heap } from './heap.ts';

/** A range of a heap. */
interface Range {
  readonly at: number;
  readonly bytes: number;
}

/**
 * Caches in a heap, where its threads read and write them; keys, values and positions one behind the other. Storage that
 * nobody released is given back when its keys are collected.
 */
export function heapStore(heap: Heap): Store {
  const held = new Map<number, Range>();
  const release = (at: number): void => {
    const range = held.get(at);
    if (range === undefined) return;
    held.delete(at);
    heap.free(range.at, range.bytes);
  };
  const lost = new FinalizationRegistry(release);
  return {
    create(heads, headDim, capacity, rebased) {
      const slots = heads * capacity,
        size = 4 * slots * headDim,
        bytes = 2 * size + 4 * slots;
      const at = slots === 0 ? 0 : heap.allocate(bytes),
        keys = heap.floats(at, slots * headDim);
      if (slots > 0) {
        held.set(at, { at, bytes });
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
    },
    release({ keys }: Storage) {
      if (keys.length === 0) return;
      lost.unregister(keys);
      release(keys.byteOffset);
    },
  };
}
