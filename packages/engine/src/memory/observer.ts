/** The newest query of one query head, and the slots that remain for it. */
export interface ObservedRow {
  /** `event`: an eviction. `view`: what views leave visible of an unchanged cache. */
  readonly at: 'event' | 'view';
  readonly layer: number;
  /** Query head. */
  readonly head: number;
  /** Tokens generated so far. */
  readonly step: number;
  /** Position of the query. */
  readonly query: number;
  /** Its softmax weights over all slots, evicted and hidden ones included. */
  readonly weights: Float32Array;
  /** The weight of the head's learned sink, which the others lack to 1. @defaultValue 0 */
  readonly sink?: number;
  /** Original positions of those slots. */
  readonly positions: readonly number[];
  /** Slots that stay, ascending. */
  readonly kept: readonly number[];
  /** The query, `[d]`, such that logits are its inner products with keys over sqrt(d). */
  readonly vector: Float32Array;
  /** Norm of the largest key of its KV head. */
  readonly keyNorm: number;
  /**
   * Bounds on the lengths of what storing has rounded off a key and off a value of its KV head, each time that they were
   * stored: slots that move are stored again. Absent where nothing was rounded off, and where a file of an older release,
   * or of a device on which slots moved, does not say what was.
   */
  readonly rounding?: { readonly key: number; readonly value: number };
  /** Views by position: positions from `sinks` up to, not including, `from` are hidden. */
  readonly window?: { readonly sinks: number; readonly from: number };
  /**
   * For a view that selects by scores: the scores of this row's slots, and the forced slots. Absent where the view
   * selected nothing.
   */
  readonly by?: { readonly scores: Float32Array; readonly forced: readonly number[] };
  /** Returns the first number that pieces keep for this query head in the state of this id. */
  state(id: string): number | undefined;
}
/** Observes what a run evicts and hides, and draws a conclusion; `certificates()` of `@kv/certificates` is one. */
export interface Observer {
  /** Called with the newest query of each query head, at each event and, under a view, each token. */
  row(row: ObservedRow): void;
  /**
   * Called once at the end.
   * @param run what was observed: heads, layers and decoding steps, positions of the prompt that each layer froze, and
   * the sum over all layers of a state that pieces kept
   * @returns what the report's `certificates` holds
   */
  conclude(run: {
    readonly heads: number;
    readonly layers: number;
    readonly steps: number;
    readonly frozen: readonly number[];
    total(state: string): number | undefined;
  }): object;
}
