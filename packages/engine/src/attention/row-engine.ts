/** Score rows `[rows, stride]` inside a larger array. */
export interface ScoreRows {
  readonly data: Float32Array;
  readonly at: number;
  readonly stride: number;
}

/**
 * The arithmetic of attention for one KV head at a time: at most `blockRows` query rows, over the first `end` slots.
 */
export interface RowEngine {
  /**
   * Starts one KV head: keys and, if rows are to be mixed, values, `[n, d]`; `queries` is the number of query rows that
   * will follow.
   */
  open(keys: Float32Array, values: Float32Array | undefined, n: number, d: number, queries: number): void;
  /**
   * Computes scores q `[rows, d]` k * scale for slots [0, end). The caller may hide slots by writing -Infinity before
   * `softmax`.
   */
  score(q: Float32Array, rows: number, end: number, scale: number): ScoreRows;
  /**
   * Converts one row's scores of [0, hi) to probabilities, which sum to 1 less that of the sink, one more score of no slot
   * (-Infinity: none); the rest become 0.
   */
  softmax(row: number, hi: number, end: number, sink: number): void;
  /** Adds the probabilities of all rows to the column sums (f64) and, if `max`, raises the column maxima. */
  addColumns(rows: number, end: number, max: boolean): void;
  /** Returns the columns accumulated since `open` or the last call, for slots [0, n), and resets them. */
  takeColumns(n: number): { readonly sum: Float64Array; readonly max: Float32Array };
  /** Writes probabilities times values, d numbers a row, to out[at + row * stride ..), which holds zeros. */
  mix(rows: number, end: number, out: Float32Array, at: number, stride: number): void;
}
