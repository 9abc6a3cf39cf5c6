import type { Signal } from './signals.ts';
import type { DType, Tensor } from '../tensor/tensor.ts';

/**
 * Memory that a piece keeps for one sequence and the engine keeps, compacts, forks, resets and counts.
 *
 * `slot`: `[rows, n]`, compacted with the cache. `position`: `[rows, N]`, one entry a position, also of evicted tokens.
 * `unit`: `[rows, units]`, ids survive events. `sequence`: `[rows, width]`, fixed.
 */
export interface StateSpec {
  readonly kind: 'slot' | 'position' | 'unit' | 'sequence';
  /** Rows a layer: one per query head, per KV head, one a layer, or one for the whole model. */
  readonly rows: 'query' | 'kv' | 'layer' | 'model';
  /** Columns of `sequence` state. @defaultValue 1 */
  readonly width?: number;
  /** Value of entries nobody wrote yet. @defaultValue 0 */
  readonly init?: number;
  /** @defaultValue 'f32' */
  readonly dtype?: DType;
}
/** State read as a signal, f32, written by returning it. */
export interface State<As extends string = string> extends Signal<As, Tensor> {
  readonly state: StateSpec;
}

/** Declares state: read it by naming it among the needs, write it by returning `{ state: { [as]: tensor } }`. */
export const state = <N extends string>(name: N, spec: StateSpec): State<N> => ({
  id: `state.${name}`,
  as: name,
  cost: 'free',
  state: spec,
});

export const isState = (s: Signal<string, any>): s is State => 'state' in s;
