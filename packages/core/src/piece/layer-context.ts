/** Where a step runs. All of it is known on the host. */
export interface LayerContext {
  /** Index of this layer, from 0. */
  readonly layer: number;
  /** Number of layers. */
  readonly layers: number;
  /** Query heads H of a layer. */
  readonly queryHeads: number;
  /** KV heads G of a layer; H is a multiple of G. */
  readonly kvHeads: number;
  /** Channels of a head. */
  readonly headDim: number;
  /** What multiplies q·k. @defaultValue 1 / sqrt(headDim) */
  readonly scale?: number;
  /** Logits are capped to `softcap * tanh(logit / softcap)`. @defaultValue they are not */
  readonly softcap?: number;
  /** Slots add something to their logits: the signal `biases`. @defaultValue they do not, and it is zeros */
  readonly biased?: boolean;
  /** Positions that a query sees, its own included. @defaultValue all */
  readonly window?: number;
  /**
   * The learned sink of each query head `[H]`, a score of no slot in its softmax: weights then sum to less than 1.
   *
   * @defaultValue heads have none
   */
  readonly learnedSinks?: Float32Array;
  /** Tokens generated so far; 0 during prefill. */
  readonly step: number;
  /** Tokens of the prompt, evicted ones included. */
  readonly promptLength: number;
  /** Tokens seen so far, evicted ones included: positions are 0 .. length - 1. */
  readonly length: number;
  /** Slots in the longest row of this layer. */
  readonly slots: number;
  /** Every head of this layer holds the same positions in the same slots. */
  readonly aligned: boolean;
  /** Average slots per KV head that the engine was asked for. */
  readonly budget: number;
  /** Number of rows of a selection: KV heads if it evicts, query heads if it only hides. */
  readonly selectRows: number;
}

/** Number of first and of last positions that are forced. */
export interface ForcedEnds {
  /** First positions. @defaultValue 0 */
  readonly first?: number;
  /** Last positions. @defaultValue 0 */
  readonly last?: number;
}
