import {
  storedForms,
  hostStore,
  planesOf,
  rowBytes,
  slotBytes,
  storageOfRecords,
  type CachePart,
  type Rows,
  type Storage,
  type StorageShape,
  type Store,
  type CacheRows,
} from '@kv/engine';
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

/** The numbers of row forms, as kernel/stored.ts has them. */
const rowFormNumbers = { f32: 0, f16: 1, q8: 2, q4: 3 } as const;
const recordNumbers = { keys: 4, values: 5 } as const;

/** Returns the number of the form that keys or values have. */
export const formNumber = (part: CachePart, { form }: CacheRows): number =>
  form === 'mixed' ? recordNumbers[part] : rowFormNumbers[form];

/**
 * Returns cache storage in a heap, where its threads read and write it: codes and scales of keys, then those of values,
 * then positions. Storage that was not released is freed when its keys are garbage-collected.
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
  const lay = (at: number, shape: StorageShape): Storage => {
    const { heads, headDim, capacity, form, rebased, room } = shape,
      slots = heads * capacity;
    let next = at;
    const take = (bytes: number): Uint8Array => {
      next += bytes;
      return heap.bytes(next - bytes, bytes);
    };
    const hold = (first: Uint8Array): void => {
      if (slots === 0) return;
      held.set(at, { at, bytes: bytesOf(shape) });
      lost.register(first, at, first);
    };
    if (room !== undefined) {
      const table = heap.words(at, slots);
      next += 4 * slots;
      const bytes = take(heads * room),
        made = storageOfRecords(
          { heads, headDim, capacity, form },
          { bytes, room, table },
          heap.words(next, slots),
          rebased,
        );
      hold(made.keys.codes);
      return made;
    }
    const [keys, values] = (['keys', 'values'] as const).map((part): Rows => {
      const as = storedForms[form][part],
        { codes, scales } = rowBytes(as, headDim);
      return { form: as, codes: take(slots * codes), scales: take(slots * scales) };
    }) as [Rows, Rows];
    hold(keys.codes);
    return {
      ...{ heads, headDim, capacity, form, keys, values },
      positions: heap.words(next, slots),
      ...(rebased && { rotations: new Uint32Array(slots) }),
    };
  };
  const move = (from: Storage, to: Storage, kept: readonly Uint32Array[]): void => {
    const bytes = 4 * Math.max(0, ...kept.map(({ length }) => length)),
      places = heap.allocate(bytes),
      [old, next] = [planesOf(from, from.headDim), planesOf(to, from.headDim)];
    // a plane of all heads before the next one: where storage shrinks they move down
    for (const [i, { bytes, each }] of old.entries())
      for (const [g, slots] of kept.entries()) {
        const [source, target] = [g * from.capacity * each, g * to.capacity * each];
        if (!heap.holds(bytes)) {
          // rotations lie outside
          for (const [at, slot] of slots.entries())
            next[i].bytes.set(bytes.subarray(source + slot * each, source + (slot + 1) * each), target + at * each);
          continue;
        }
        heap.words(places, slots.length).set(slots);
        kernels.gather(bytes.byteOffset + source, next[i].bytes.byteOffset + target, each, places, slots.length);
      }
    heap.free(places, bytes);
  };
  /** Calls a kernel with the address of numbers, or of a copy of them. */
  const taking = (x: Float32Array, use: (at: number) => void): void => {
    if (heap.holds(x)) {
      use(x.byteOffset);
      return;
    }
    const at = heap.allocate(4 * x.length);
    heap.floats(at, x.length).set(x);
    use(at);
    heap.free(at, 4 * x.length);
  };
  /** Calls a kernel that writes numbers with an address for them. */
  const giving = (out: Float32Array, count: number, use: (at: number) => void): void => {
    if (heap.holds(out)) {
      use(out.byteOffset);
      return;
    }
    const at = heap.allocate(4 * count);
    use(at);
    out.set(heap.floats(at, count));
    heap.free(at, 4 * count);
  };
  const give = (first: Uint8Array | Float32Array): void => {
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
    create: (shape) => lay(shape.heads * shape.capacity === 0 ? 0 : heap.allocate(bytesOf(shape)), shape),
    pack(from, kept, capacity) {
      const { keys, rotations } = from,
        shape = { ...from, capacity, rebased: rotations !== undefined },
        at = keys.codes.byteOffset,
        [before, after] = [bytesOf(from), bytesOf(shape)];
      if (capacity === from.capacity) {
        move(from, from, kept);
        return from;
      }
      if (capacity === 0) {
        give(keys.codes);
        return hostStore.create(shape);
      }
      lost.unregister(keys.codes);
      const to = lay(at, shape);
      move(from, to, kept);
      if (after < before) heap.free(at + after, before - after);
      return to;
    },
    release: ({ keys }) => give(keys.codes),
    encode(rows, d, at, x) {
      if (rows.form === 'f32') {
        hostStore.encode(rows, d, at, x); // nothing to compute
        return;
      }
      if (!heap.holds(rows.codes)) {
        hostStore.encode(rows, d, at, x);
        return;
      }
      const [codes, scales] = placeOf(rows, d, at);
      taking(x, (from) => kernels.encode(rowFormNumbers[rows.form], from, 4 * d, x.length / d, d, codes, scales));
    },
    decode(rows, d, at, n, out) {
      if (!heap.holds(rows.codes)) {
        hostStore.decode(rows, d, at, n, out);
        return;
      }
      const [codes, scales] = placeOf(rows, d, at);
      giving(out, n * d, (to) => kernels.decode(rowFormNumbers[rows.form], codes, scales, n, d, to));
    },
    encodeRecords(records, d, x) {
      const { part, words, bytes } = records;
      if (!heap.holds(bytes) || !heap.holds(words)) hostStore.encodeRecords(records, d, x);
      else
        taking(x, (from) =>
          kernels.encode(recordNumbers[part], from, 4 * d, words.length, d, words.byteOffset, bytes.byteOffset),
        );
    },
    decodeRecords(records, d, out) {
      const { part, words, bytes } = records,
        n = words.length;
      if (!heap.holds(bytes) || !heap.holds(words)) hostStore.decodeRecords(records, d, out);
      else
        giving(out, n * d, (to) => kernels.decode(recordNumbers[part], words.byteOffset, bytes.byteOffset, n, d, to));
    },
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

/** Returns the addresses of a row's codes and scales. */
function placeOf({ form, codes, scales }: Rows, d: number, at: number): [codes: number, scales: number] {
  const bytes = rowBytes(form, d);
  return [codes.byteOffset + at * bytes.codes, scales.byteOffset + at * bytes.scales];
}

/** Returns the bytes of storage, in whole cache lines. */
function bytesOf({ heads, headDim, capacity, form, room }: Omit<StorageShape, 'rebased'>): number {
  if (room !== undefined) return line * Math.ceil((heads * (room + 8 * capacity)) / line);
  return line * Math.ceil((heads * capacity * slotBytes(form, headDim)) / line);
}
