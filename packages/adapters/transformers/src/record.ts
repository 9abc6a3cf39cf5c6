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
  /** The latest queries, if the policy reads them. */
  readonly queries?: SessionQueryRing;
}

/** The latest queries of a layer. */
export interface SessionQueryRing {
  /** After rotary embedding, `[H, w, d]`. */
  readonly data: Float32Array;
  /** Their rotary positions `[H, w]`, needed where kept slots move together. */
  readonly rotations: Int32Array;
  readonly count: number;
}

/** The state of a sequence. Replaced as a whole, so that a step that fails changes nothing. */
export interface Record {
  readonly ids: readonly number[];
  readonly layers: readonly SessionCache[];
  /** Slots in each head of each layer. */
  readonly slots: number;
  /** Slots to keep at an event. */
  readonly budget: Allowance;
  readonly promptLength: number;
  /** Number of generated tokens. */
  readonly step: number;
  readonly text?: SequenceText;
  readonly state: RetainState;
  readonly events: number;
  /** Positions that the last event kept, `[layer][head]`. */
  readonly kept?: readonly (readonly Uint32Array[])[];
  readonly notes: readonly string[];
}
