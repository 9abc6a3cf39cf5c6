import type { LayerCache, Angles } from '@kv/engine';
import type { LoadedCode } from './install.ts';
import type { Command, ThreadPool } from './team.ts';
import { GrowableBuffer, ScratchSpace } from './workspace.ts';

/** Words of a cache before the slots in use of each KV head: keys, values, positions, capacity. */
const before = 4;

/** Bytes of the words that describe a layer's cache. */
export const cacheBytes = (kvHeads: number): number => 4 * (before + kvHeads);

/** What one pass works on; several may be under way, since they wait between layers. */
export class PassBuffers {
  readonly work: ScratchSpace;
  readonly team: ThreadPool;
  readonly #eight: boolean;
  readonly #angles: GrowableBuffer;
  readonly #caches: GrowableBuffer;
  readonly #packed: GrowableBuffer;
  readonly queries: GrowableBuffer;
  readonly #shares: GrowableBuffer;
  readonly #sums: GrowableBuffer;

  /** @param eight whether blocks attend in 8 bits */
  constructor(team: ThreadPool, eight: boolean) {
    [this.team, this.#eight] = [team, eight];
    this.work = new ScratchSpace(team);
    [this.#angles, this.#caches, this.#packed] = [
      new GrowableBuffer(team),
      new GrowableBuffer(team),
      new GrowableBuffer(team),
    ];
    [this.queries, this.#shares, this.#sums] = [
      new GrowableBuffer(team),
      new GrowableBuffer(team),
      new GrowableBuffer(team),
    ];
  }

  /** The words of a command that say where things are: what code shares and owns, angles, caches, packed keys. */
  command(
    { layout, code, end }: LoadedCode,
    rows: number,
    { rotary, cos, sin }: Angles,
    caches: readonly LayerCache[],
  ): Omit<Command, 'position' | 'queries' | 'window' | 'shares' | 'stride' | 'apart' | 'sums'> {
    const { heap } = this.team,
      half = rows * (rotary / 2),
      angles = heap.floats(this.#angles.at(8 * half + 64), 2 * half);
    angles.set(cos);
    angles.set(sin, half);
    return {
      ...this.work.for(layout),
      code,
      end,
      rows,
      cos: angles.byteOffset,
      sin: angles.byteOffset + 4 * half,
      caches: caches.length === 0 ? 0 : this.#describe(caches),
      packed:
        layout.rows === 1 ? 0 : this.#packed.at(Math.max(0, ...caches.map((cache) => this.#packedBytes(cache, rows)))),
    };
  }

  /** Where sums of weights go of so many layers and query heads; kernels write blocks of 32 slots, or 3 slots behind. */
  shares(layers: number, heads: number, slots: number): Pick<Command, 'shares' | 'stride'> {
    const stride = 32 * Math.ceil((slots + 3) / 32);
    return { stride, shares: this.#shares.at(4 * layers * heads * stride) };
  }

  /** Where the words lie that say what sums count: from which row on, and what of a weight. */
  sums(counted: readonly (readonly [since: number, kind: number])[]): number {
    const at = this.#sums.at(4 + 8 * counted.length);
    this.team.heap.words(at, 1 + 2 * counted.length).set([counted.length, ...counted.flat()]);
    return at;
  }

  #describe(caches: readonly LayerCache[]): number {
    const bytes = cacheBytes(caches[0].heads) * caches.length,
      at = this.#caches.at(bytes);
    describe(caches, this.team.heap.words(at, bytes / 4));
    return at;
  }

  /** Words of rows that each have caches of their own and stand somewhere. */
  rows(rows: readonly (readonly LayerCache[])[], positions: Uint32Array): Pick<Command, 'caches' | 'apart'> {
    const each = (cacheBytes(rows[0][0].heads) * rows[0].length) / 4 + 1,
      caches = this.#caches.at(4 * each * rows.length),
      words = this.team.heap.words(caches, each * rows.length);
    for (const [r, row] of rows.entries()) {
      describe(row, words.subarray(r * each));
      words[(r + 1) * each - 1] = positions[r];
    }
    return { caches, apart: 4 * each };
  }

  /** Bytes of a layer's cache as blocks attend to it, once m more have joined. */
  #packedBytes({ lengths, headDim }: LayerCache, m: number): number {
    const { packedBytes } = this.team.kernels;
    return lengths.reduce((sum, n) => sum + packedBytes(Number(this.#eight), headDim, n + m), 0);
  }

  free(): void {
    this.work.free();
    for (const room of [this.#angles, this.#caches, this.#packed, this.queries, this.#shares, this.#sums]) room.free();
  }
}

/** Puts what the kernels read of each layer's cache into words. */
function describe(caches: readonly LayerCache[], words: Uint32Array): void {
  const each = cacheBytes(caches[0].heads) / 4;
  for (const [l, { keys, values, positions, capacity, lengths }] of caches.entries()) {
    words.set([keys.byteOffset, values.byteOffset, positions.byteOffset, capacity], l * each);
    words.set(lengths, l * each + before);
  }
}
