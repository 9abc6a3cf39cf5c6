import type { Tensor } from '@kv/core';
import { rowBytes } from '@kv/engine';
import type { CachePart } from '@kv/engine';
import { encodeDecoded } from '../operations.ts';
import type { DeviceCache } from './cache.ts';
import type { DeviceScope } from './device-scope.ts';

/**
 * Keys and values as f32, which pieces read, of caches that store them in another form: decoded for a step of one
 * layer, and freed after it, so that those of all layers are never there at once.
 */
export class DecodedParts {
  readonly #device: DeviceScope;
  readonly #held = new Map<DeviceCache, Map<CachePart, Tensor>>();

  constructor(device: DeviceScope) {
    this.#device = device;
  }

  /** Returns the keys or values of the slots in use, `[G, n, d]`. */
  read(cache: DeviceCache, part: CachePart): Tensor {
    const { scope, ledger } = this.#device,
      { heads, headDim, length } = cache,
      parts = this.#held.get(cache) ?? new Map<CachePart, Tensor>(),
      found = parts.get(part);
    if (found) return found;
    const out = scope.commands.make([heads, length, headDim]);
    encodeDecoded(scope.commands, cache.rows(part), out);
    this.#held.set(cache, parts.set(part, out));
    ledger.allocate('decoded', bytesOf(out));
    ledger.use('decoded', bytesOf(out));
    return out;
  }

  /** Frees what was decoded; what is recorded with it still runs. */
  clear(): void {
    const { scope, ledger } = this.#device;
    for (const parts of this.#held.values())
      for (const x of parts.values()) {
        ledger.release('decoded', bytesOf(x));
        ledger.free('decoded', bytesOf(x));
        scope.commands.free(x);
      }
    this.#held.clear();
  }
}

const bytesOf = ({ shape: [heads = 0, slots = 0, d = 0] }: Tensor): number => heads * slots * rowBytes('f32', d).codes;
