/** The newest query of one query head, and what is left for it. */
export interface ObservedRow {
  /** An eviction, or what views leave visible of a cache that stays. */
  readonly at: 'event' | 'view';
  readonly layer: number;
  readonly head: number;
  /** Tokens generated so far. */
  readonly step: number;
  /** Position of the query. */
  readonly query: number;
  /** Its softmax weights over all slots, evicted and hidden ones included. */
  readonly weights: Float32Array;
  /** Original positions of those slots. */
  readonly positions: readonly number[];
  /** Slots that stay, ascending. */
  readonly kept: readonly number[];
  /** The query, `[d]`, such that logits are its inner products with keys over sqrt(d). */
  readonly vector: Float32Array;
  /** Norm of the largest key of its KV head. */
  readonly keyNorm: number;
  /** Views by position: positions from `sinks` up to, not including, `from` are hidden. */
  readonly window?: { readonly sinks: number; readonly from: number };
  /**
   * A view that chose by scores: those of this row's slots, and which of them were forced; absent where it chose
   * nothing.
   */
  readonly by?: { readonly scores: Float32Array; readonly forced: readonly number[] };
  /** The first number that pieces keep for this query head in the state of this id. */
  state(id: string): number | undefined;
}
/**
 * Looks on while a run evicts and hides, and concludes something about it; `certificates()` of `@kv/certificates` is
 * one.
 */
export interface Observer {
  row(row: ObservedRow): void;
  /**
   * @param run what there was to see: heads, layers and decoding steps, positions of the prompt that each layer froze,
   * and the sum over all layers of a state that pieces kept.
   */
  conclude(run: {
    readonly heads: number;
    readonly layers: number;
    readonly steps: number;
    readonly frozen: readonly number[];
    total(state: string): number | undefined;
  }): object;
}
