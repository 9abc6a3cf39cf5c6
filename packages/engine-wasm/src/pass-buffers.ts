import { slotHeads, type ModelConfig } from '@kv/checkpoints';
import type { LayerCache, Angles, HostState } from '@kv/engine';
import type { LoadedCode } from './install.ts';
import { formNumber } from './store.ts';
import type { Command, ThreadPool } from './thread-pool.ts';
import { GrowableBuffer, ScratchSpace } from './workspace.ts';

/**
 * Words of a cache before the slots in use of each KV head: keys, values, positions, capacity, lists, view, forms of keys
 * and values, their scales, biases, the stride of biases, and a term.
 */
const before = 13,
  listsAt = 4,
  termAt = 12;

/** Bytes of the words that describe a layer's cache, the same for all layers of a model. @param kvHeads the most that a layer has */
export const cacheBytes = (kvHeads: number): number => 4 * (before + kvHeads);

/** Returns the most KV heads that a layer has. */
export const mostKvHeads = (heads: readonly { readonly kvHeads: number }[]): number =>
  Math.max(0, ...heads.map(({ kvHeads }) => kvHeads));

/** Whether blocks attend in 8 bits over heads of this width. @param eight whether they do where the module can */
export const eights = ({ kernels }: Pick<ThreadPool, 'kernels'>, eight: boolean, headDim: number): boolean =>
  eight && kernels.eights(headDim) !== 0;

/**
 * Returns where the queries of each layer that keeps slots are recorded, in rows of the layer's own width, so that rows of
 * different widths do not overlap.
 */
export function queryRanks(config: Pick<ModelConfig, 'mixers'>): readonly number[] {
  let end = 0;
  return slotHeads(config).map(({ headDim }) => {
    const rank = Math.ceil(end / headDim);
    end = (rank + 1) * headDim;
    return rank;
  });
}

/** Returns the numbers of one row of recorded queries in all layers together. */
export function queryRowNumbers({ queryHeads, ...config }: Pick<ModelConfig, 'mixers' | 'queryHeads'>): number {
  const ranks = queryRanks(config);
  return queryHeads * Math.max(0, ...slotHeads(config).map(({ headDim }, l) => (ranks[l] + 1) * headDim));
}

/** A layer, and the address of the lists of slots that its token sees, or of the ranges hidden from a block's rows. */
interface ShownSlots {
  readonly layer: number;
  readonly lists: number;
}

/** The buffers of one pass. Several passes may be in progress, since they pause between layers. */
export class PassBuffers {
  readonly work: ScratchSpace;
  readonly pool: ThreadPool;
  readonly #eight: boolean;
  readonly #angles: GrowableBuffer;
  readonly #caches: GrowableBuffer;
  readonly #packed: GrowableBuffer;
  readonly queries: GrowableBuffer;
  readonly #shares: GrowableBuffer;
  readonly #sums: GrowableBuffer;
  readonly #lists: GrowableBuffer;
  readonly #hidden: GrowableBuffer;
  readonly #term: GrowableBuffer;
  /** What views show to each row. */
  readonly #views: GrowableBuffer[] = [];

  /** @param eight whether blocks attend in 8 bits where the module can */
  constructor(pool: ThreadPool, eight: boolean) {
    [this.pool, this.#eight] = [pool, eight];
    this.work = new ScratchSpace(pool);
    [this.#angles, this.#caches, this.#packed] = [
      new GrowableBuffer(pool),
      new GrowableBuffer(pool),
      new GrowableBuffer(pool),
    ];
    [this.queries, this.#shares, this.#sums, this.#lists, this.#hidden, this.#term] = [
      new GrowableBuffer(pool),
      new GrowableBuffer(pool),
      new GrowableBuffer(pool),
      new GrowableBuffer(pool),
      new GrowableBuffer(pool),
      new GrowableBuffer(pool),
    ];
  }

  /**
   * Returns the address words of a command: shared and per-thread memory, angles, caches and states, packed keys.
   * @param shown layers that attend over some slots alone
   */
  command(
    { layout, code, end }: LoadedCode,
    rows: number,
    { rotary, cos, sin, scales }: Angles,
    { caches, states }: Kept,
    shown: readonly ShownSlots[] = [],
  ): Omit<Command, 'position' | 'queries' | 'window' | 'shares' | 'stride' | 'apart' | 'sums'> {
    const { heap } = this.pool,
      half = rows * (rotary / 2),
      angles = heap.floats(this.#angles.at(8 * half + 4 * rows + 64), 2 * half + rows);
    angles.set(cos);
    angles.set(sin, half);
    if (scales) angles.set(scales, 2 * half);
    return {
      ...this.work.for(layout),
      code,
      end,
      rows,
      cos: angles.byteOffset,
      sin: angles.byteOffset + 4 * half,
      scales: scales ? angles.byteOffset + 8 * half : 0,
      caches: caches.length + states.length === 0 ? 0 : this.#describe({ caches, states }, shown),
      packed:
        layout.rows === 1 ? 0 : this.#packed.at(Math.max(0, ...caches.map((cache) => this.#packedBytes(cache, rows)))),
    };
  }

  /**
   * Allocates sums of weights for this number of layers and query heads; kernels write blocks of 32 slots, or up to 3
   * slots past the end.
   */
  shares(layers: number, heads: number, slots: number): Pick<Command, 'shares' | 'stride'> {
    const stride = 32 * Math.ceil((slots + 3) / 32);
    return { stride, shares: this.#shares.at(4 * layers * heads * stride) };
  }

  /** Returns the address of the words that define what sums count: the first row, and the statistic of a weight. */
  sums(counted: readonly (readonly [since: number, kind: number])[]): number {
    const at = this.#sums.at(4 + 8 * counted.length);
    this.pool.heap.words(at, 1 + 2 * counted.length).set([counted.length, ...counted.flat()]);
    return at;
  }

  #describe(kept: Kept, shown: readonly ShownSlots[]): number {
    const each = bytesOfCache(kept),
      bytes = bytesOf(kept),
      at = this.#caches.at(bytes),
      words = this.pool.heap.words(at, bytes / 4);
    describe(kept, words);
    for (const { layer, lists } of shown) words[(layer * each) / 4 + listsAt] = lists;
    return at;
  }

  /**
   * Writes lists of slots, at most `most`, of at most `slots` slots each, as the kernels read them.
   * @param list writes each list to a row of `to`, rows `stride` numbers apart, and returns their lengths
   * @returns the address of the lists, and their lengths
   */
  lists(
    most: number,
    slots: number,
    list: (to: Uint32Array, stride: number) => readonly number[],
  ): { readonly at: number; readonly lengths: readonly number[] } {
    const stride = 1024 * Math.ceil(slots / 1024),
      first = 1 + 2 * most,
      count = first + most * stride,
      at = this.#lists.at(4 * count),
      words = this.pool.heap.words(at, count),
      lengths = list(words.subarray(first), stride);
    words[0] = lengths.length;
    for (const [i, length] of lengths.entries()) words.set([length, at + 4 * (first + i * stride)], 1 + 2 * i);
    return { at, lengths };
  }

  /** Returns the buffer of a row's views. */
  views(row: number): GrowableBuffer {
    return (this.#views[row] ??= new GrowableBuffer(this.pool));
  }

  /** Writes a row's view of a layer, and where it leaves lists, into the words of its caches. @param heads the most KV heads that a layer has */
  show(caches: number, heads: number, layer: number, view: number, lists: number): void {
    const at = caches + layer * cacheBytes(heads);
    this.pool.heap.words(at + 4 * listsAt, 2).set([lists, view]);
  }

  /**
   * Writes a term of a token's attention, and where it lies into the words of a layer's cache.
   * @param caches address of the words of the first cache
   * @param heads the most KV heads that a layer has
   * @param masses `[H]`
   * @param values `[H, d]`
   */
  join(caches: number, heads: number, layer: number, masses: Float32Array, values: Float32Array): void {
    const d = values.length / masses.length,
      at = this.#term.at(4 * masses.length * (4 + d)),
      numbers = this.pool.heap.floats(at, masses.length * (4 + d));
    for (const [h, mass] of masses.entries()) {
      numbers[h * (4 + d)] = mass;
      numbers.set(values.subarray(h * d, (h + 1) * d), h * (4 + d) + 4);
    }
    this.pool.heap.words(caches + layer * cacheBytes(heads) + 4 * termAt, 1)[0] = at;
  }

  /** Writes the words of `hiddenRanges` of some layers, and returns where those of each lie. */
  hidden(ranges: readonly (readonly [layer: number, words: Uint32Array])[]): readonly ShownSlots[] {
    let at = this.#hidden.at(ranges.reduce((bytes, [, words]) => bytes + words.byteLength, 0));
    return ranges.map(([layer, words]) => {
      const lists = at;
      this.pool.heap.words(lists, words.length).set(words);
      at += words.byteLength;
      return { layer, lists };
    });
  }

  /** Returns the words of rows that each have their own caches, states and position. */
  rows(rows: readonly Kept[], positions: Uint32Array): Pick<Command, 'caches' | 'apart'> {
    const each = bytesOf(rows[0]) / 4 + 1,
      caches = this.#caches.at(4 * each * rows.length),
      words = this.pool.heap.words(caches, each * rows.length);
    for (const [r, row] of rows.entries()) {
      describe(row, words.subarray(r * each));
      words[(r + 1) * each - 1] = positions[r];
    }
    return { caches, apart: 4 * each };
  }

  /** Returns the bytes of a layer's cache in the form that blocks attend to, once m more have joined. */
  #packedBytes({ lengths, headDim, values }: LayerCache, m: number): number {
    const { packedBytes } = this.pool.kernels,
      decoded = Number(values.form !== 'f32');
    return lengths.reduce(
      (sum, n) => sum + packedBytes(Number(eights(this.pool, this.#eight, headDim)), headDim, n + m, decoded),
      0,
    );
  }

  free(): void {
    this.work.free();
    for (const room of [this.#angles, this.#caches, this.#packed, this.queries]) room.free();
    for (const room of [this.#shares, this.#sums, this.#lists, this.#hidden, this.#term]) room.free();
    this.#views.forEach((room) => room.free()); // rows without views have none
  }
}

/** What a sequence's layers keep. */
interface Kept {
  readonly caches: readonly LayerCache[];
  readonly states: readonly Float32Array[];
}
/** What a command reads whose code neither attends nor carries states. */
export const nothingKept: Kept = { caches: [], states: [] };
/** Returns what the layers of a sequence keep. */
export const keptOf = ({ layers, states }: Pick<HostState, 'layers' | 'states'>): Kept => ({
  caches: layers.map(({ cache }) => cache),
  states: states.all,
});

/** Returns the bytes of the words that describe one of its caches. */
const bytesOfCache = ({ caches }: Pick<Kept, 'caches'>): number =>
  cacheBytes(Math.max(0, ...caches.map(({ heads }) => heads)));

/** Returns the bytes of the words that describe it: those of each cache, then the address of each state. */
const bytesOf = ({ caches, states }: Kept): number => bytesOfCache({ caches }) * caches.length + 4 * states.length;

/** Writes what the kernels read of each cache and state into words. */
function describe({ caches, states }: Kept, words: Uint32Array): void {
  const each = bytesOfCache({ caches }) / 4;
  words.set(
    states.map(({ byteOffset }) => byteOffset),
    each * caches.length,
  );
  for (const [l, { keys, values, positions, capacity, lengths, biases }] of caches.entries()) {
    words.set(
      [
        ...[keys.codes.byteOffset, values.codes.byteOffset, positions.byteOffset, capacity, 0, 0],
        ...[formNumber('keys', keys), formNumber('values', values), keys.scales.byteOffset, values.scales.byteOffset],
        ...[biases?.data.byteOffset ?? 0, biases?.stride ?? 0, 0],
      ],
      l * each,
    );
    words.set(lengths, l * each + before);
  }
}
