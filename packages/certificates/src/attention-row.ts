/**
 * The newest query of one query head, its weights over all slots, and the slots that it keeps, as `generate` of
 * `@kv/models` reports them.
 */
export interface AttentionRow {
  /** `event`: an eviction. `view`: what views leave visible of an unchanged cache. */
  readonly at: 'event' | 'view';
  readonly layer: number;
  /** Query head. */
  readonly head: number;
  /** Tokens generated so far. */
  readonly step: number;
  /** Position of the query. */
  readonly query: number;
  /** Softmax weights over all slots, evicted and hidden ones included. */
  readonly weights: ArrayLike<number>;
  /** The weight of the head's learned sink, which the others lack to 1. @defaultValue 0 */
  readonly sink?: number;
  /** Original positions of the slots. */
  readonly positions: ArrayLike<number>;
  /** Slots that stay, ascending. */
  readonly kept: readonly number[];
  /** The query itself, `[d]`, as attention reads it. */
  readonly vector?: Float32Array;
  /** Norm of the largest key of its KV head. */
  readonly keyNorm?: number;
  /** Bounds on the lengths of what storing has rounded off a key and off a value of its KV head. */
  readonly rounding?: { readonly key: number; readonly value: number };
  /** A window's bounds: positions from `sinks` up to, not including, `from` are hidden. */
  readonly window?: { readonly sinks: number; readonly from: number };
  /** The basis of the view's choice: a score for each slot, and the forced slots. */
  readonly by?: { readonly scores: ArrayLike<number>; readonly forced: readonly number[] };
  /** Returns the number that a piece keeps for this query head under an id. */
  state?(id: string): number | undefined;
}
