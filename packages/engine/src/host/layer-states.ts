import { hostStore, type Store } from '../cache/storage.ts';
import type { Ledger } from '../ledger.ts';
import { spread, type CarriedStates } from '../memory/carried-states.ts';

/** All states after the first `tokens` tokens, joined. Never changed, so that forks share it. */
interface StateSnapshot {
  readonly tokens: number;
  readonly numbers: Float32Array;
}

/**
 * The states that layers of one sequence carry from token to token, and snapshots of them. Counted in the ledger under
 * `layer states` and `snapshots`; forks share their snapshots and count them too.
 */
export class LayerStates implements CarriedStates {
  /** The numbers of each state, which passes change in place. */
  readonly all: readonly Float32Array[];
  readonly #most: number;
  readonly #ledger: Ledger;
  readonly #store: Store;
  #snapshots: readonly StateSnapshot[] = [];

  /**
   * Creates states of zeros, those before the first token.
   * @param sizes numbers of each
   * @param most snapshots that are held
   */
  constructor(sizes: readonly number[], most: number, ledger: Ledger, store: Store = hostStore) {
    [this.#most, this.#ledger, this.#store] = [most, ledger, store];
    this.all = sizes.map((size) => store.createNumbers(size));
    ledger.allocate('layer states', this.bytes);
    ledger.use('layer states', this.bytes);
  }

  get bytes(): number {
    return this.all.reduce((sum, { byteLength }) => sum + byteLength, 0);
  }

  get snapshots(): readonly number[] {
    return this.#snapshots.map(({ tokens }) => tokens);
  }

  keep(tokens: number): void {
    if (this.#most === 0 || this.all.length === 0) return;
    const held = this.#snapshots.filter((each) => each.tokens < tokens);
    this.#hold(spread([...held, { tokens, numbers: this.#joined() }], this.#most));
  }

  /**
   * @param upTo tokens of the copy: all, or those of a snapshot
   * @param length tokens so far
   */
  fork(ledger: Ledger, upTo: number, length: number): LayerStates {
    const copy = new LayerStates(
        this.all.map((state) => state.length),
        this.#most,
        ledger,
        this.#store,
      ),
      from = upTo === length ? undefined : this.#snapshots.find(({ tokens }) => tokens === upTo);
    copy.restore(from ? split(from.numbers, this.all) : this.all); // no caller cuts states where there is no snapshot
    copy.#hold(this.#snapshots.filter(({ tokens }) => tokens <= upTo));
    return copy;
  }

  /** Returns a copy of each state. */
  saved(): readonly Float32Array[] {
    return this.all.map((state) => state.slice());
  }

  /** Sets every state. */
  restore(states: readonly Float32Array[]): void {
    for (const [i, state] of states.entries()) this.all[i].set(state);
  }

  destroy(): void {
    this.#hold([]);
    this.#ledger.release('layer states', this.bytes);
    this.#ledger.free('layer states', this.bytes);
    for (const state of this.all) this.#store.releaseNumbers(state);
  }

  #joined(): Float32Array {
    const numbers = new Float32Array(this.bytes / 4);
    let at = 0;
    for (const state of this.all) {
      numbers.set(state, at);
      at += state.length;
    }
    return numbers;
  }

  #hold(snapshots: readonly StateSnapshot[]): void {
    const bytes = (of: readonly StateSnapshot[]): number =>
      of.reduce((sum, { numbers }) => sum + numbers.byteLength, 0);
    const more = bytes(snapshots) - bytes(this.#snapshots);
    if (more > 0) {
      this.#ledger.allocate('snapshots', more);
      this.#ledger.use('snapshots', more);
    } else {
      this.#ledger.release('snapshots', -more);
      this.#ledger.free('snapshots', -more);
    }
    this.#snapshots = snapshots;
  }
}

/** Returns the parts of joined states. */
function split(numbers: Float32Array, like: readonly Float32Array[]): readonly Float32Array[] {
  let at = 0;
  return like.map(({ length }) => numbers.subarray(at, (at += length)));
}
