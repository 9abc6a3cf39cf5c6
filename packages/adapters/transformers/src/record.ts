import type { RetainState } from '@kv/core';
import type { Allowance } from '@kv/core/engine';
import type { Tensor } from '@huggingface/transformers';
import type { SequenceText } from './text.ts';

/** A layer's cache: keys after rotary embedding and values, `[1, G, n, d]`. */
export interface SessionCache {
  readonly key: Tensor;
  readonly value: Tensor;
  /** Original positions `[G, n]`, ascending in each head. */
  readonly positions: readonly Uint32Array[];
  /** The last queries, where the policy reads them. */
  readonly queries?: SessionQueryRing;
}

/** The last queries of a layer. */
export interface SessionQueryRing {
  /** After rotary embedding, `[H, w, d]`. */
  readonly data: Float32Array;
  /** Where they stand in rotary embedding, `[H, w]`: read where kept slots move together. */
  readonly rotations: Int32Array;
  readonly count: number;
}

/** One sequence at one moment; replaced whole, so that a step that fails leaves it as it was. */
export interface Record {
  readonly ids: readonly number[];
  readonly layers: readonly SessionCache[];
  /** Slots of every head of every layer. */
  readonly slots: number;
  /** Slots that events leave. */
  readonly budget: Allowance;
  readonly promptLength: number;
  /** Tokens generated. */
  readonly step: number;
  readonly text?: SequenceText;
  readonly state: RetainState;
  readonly events: number;
  /** Positions that the last event kept, `[layer][head]`. */
  readonly kept?: readonly (readonly Uint32Array[])[];
  readonly notes: readonly string[];
}
