import { floats } from '../cache/encode.ts';
import type { LayerCache } from '../cache/layer-cache.ts';
import type { CachePart } from '../cache/cache-rows.ts';
import type { Ledger } from '../ledger.ts';

/** Keys or values of a layer as f32: number i of slot j of KV head g at `(g * capacity + j) * d + i`. */
export interface DecodedRows {
  readonly data: Float32Array;
  readonly capacity: number;
}

/**
 * Keys and values of one layer at a time as f32, which pieces read: never those of all layers at once. Each layer gets
 * arrays of its own, so that a piece may hold on to them.
 */
export class DecodedLayer {
  readonly #ledger: Ledger;
  readonly #parts = new Map<CachePart, Float32Array>();
  #cache: LayerCache | undefined;
  #bytes = 0;

  constructor(ledger: Ledger) {
    this.#ledger = ledger;
  }

  /** Returns keys or values of a cache, which lie in it where they are stored as f32. */
  read(cache: LayerCache, part: CachePart): DecodedRows {
    const { heads: G, headDim: d, capacity, length: n } = cache;
    if (cache[part].form === 'f32') return { data: floats(cache[part].codes), capacity };
    if (cache !== this.#cache) this.clear();
    this.#cache = cache;
    let data = this.#parts.get(part);
    if (!data) {
      data = new Float32Array(G * n * d);
      for (let g = 0; g < G; g++) data.set(cache.read(part, g), g * n * d);
      this.#parts.set(part, data);
      this.#bytes += data.byteLength;
      this.#ledger.allocate('decoded', data.byteLength);
      this.#ledger.use('decoded', data.byteLength);
    }
    return { data, capacity: n };
  }

  /** Forgets what was decoded: the caches change. */
  clear(): void {
    this.#parts.clear();
    this.#cache = undefined;
    this.#ledger.release('decoded', this.#bytes);
    this.#ledger.free('decoded', this.#bytes);
    this.#bytes = 0;
  }
}
