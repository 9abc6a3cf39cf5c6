import type { Tensor } from '@kv/core';
import type { Commands } from '@kv/gpu';
import { encodeSlots } from '../operations.ts';
import type { Home } from './home.ts';

/** The last w queries of one layer after rotation, `[H, w, d]` on the device, and their positions on the host: token t at t % w. */
export class DeviceRing {
  readonly window: number;
  readonly #tensor: Tensor;
  readonly #positions: Uint32Array;
  readonly #home: Home;
  #seen = 0;

  constructor(window: number, heads: number, dim: number, home: Home) {
    [this.window, this.#home, this.#positions] = [window, home, new Uint32Array(window)];
    this.#tensor = home.scope.commands.make([heads, window, dim]);
    home.ledger.allocate('rings', this.#bytes);
    home.ledger.use('rings', this.#bytes);
  }

  get #bytes(): number {
    return 4 * (this.#tensor.shape.reduce((a, b) => a * b, 1) + this.window);
  }

  /** Adds queries `[H, m, d]` at their positions; those before the last w are not copied. */
  push(q: Tensor, positions: Uint32Array): void {
    const m = positions.length, count = Math.min(m, this.window), from = m - count;
    encodeSlots(this.#home.scope.commands, q, this.#tensor, count, from, (this.#seen + from) % this.window);
    for (let i = from; i < m; i++) this.#positions[(this.#seen + i) % this.window] = positions[i]!;
    this.#seen += m;
  }

  /** A copy of the last `count` queries (fewer if fewer were seen), oldest first: `[H, count, d]` and positions. */
  last(commands: Commands, count: number): { readonly q: Tensor; readonly positions: Uint32Array } {
    const [heads = 1, w = 1, dim = 1] = this.#tensor.shape, have = Math.min(count, w, this.#seen), first = (this.#seen - have) % w, q = commands.make([heads, have, dim]);
    encodeSlots(commands, this.#tensor, q, have, first);
    return { q, positions: Uint32Array.from({ length: have }, (_, i) => this.#positions[(first + i) % w]!) };
  }

  fork(home: Home): DeviceRing {
    const [heads = 1, w = 1, dim = 1] = this.#tensor.shape, copy = new DeviceRing(w, heads, dim, home);
    encodeSlots(home.scope.commands, this.#tensor, copy.#tensor, w);
    copy.#positions.set(this.#positions);
    copy.#seen = this.#seen;
    return copy;
  }

  destroy(): void {
    const { scope: { commands }, ledger } = this.#home;
    ledger.release('rings', this.#bytes);
    ledger.free('rings', this.#bytes);
    commands.free(this.#tensor);
  }
}
