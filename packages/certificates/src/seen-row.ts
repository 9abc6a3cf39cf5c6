/**
 * One query head's newest query: its weights over all slots, and what is left for it. As `generate` of `@kv/models`
 * shows it.
 */
export interface AttentionRow {
  readonly at: 'event' | 'view';
  readonly layer: number;
  readonly head: number;
  readonly step: number;
  /** Position of the query. */
  readonly query: number;
  readonly weights: ArrayLike<number>;
  /** Original positions of the slots. */
  readonly positions: ArrayLike<number>;
  readonly kept: readonly number[];
  /** The query itself, `[d]`, as attention reads it. */
  readonly vector?: Float32Array;
  /** Norm of the largest key of its KV head. */
  readonly keyNorm?: number;
  /** A window's bounds: positions from `sinks` up to, not including, `from` are hidden. */
  readonly window?: { readonly sinks: number; readonly from: number };
  /** What the view chose by: a score for each slot, and slots that it was forced to keep. */
  readonly by?: { readonly scores: ArrayLike<number>; readonly forced: readonly number[] };
  /** What pieces keep for this query head under an id. */
  state?(id: string): number | undefined;
}
