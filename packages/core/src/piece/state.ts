import { KvError } from '../tensor/errors.ts';
import type { Signal } from './signals.ts';
import type { DType, Tensor } from '../tensor/tensor.ts';

/**
 * Memory of a piece for one sequence, which the engine holds, compacts, forks, resets and counts.
 *
 * `slot`: `[rows, n]`, compacted with the cache. `position`: `[rows, N]`, one entry per position, evicted tokens
 * included. `unit`: `[rows, units]`, ids survive events. `sequence`: `[rows, width]`, fixed.
 */
export interface StateSpec {
  readonly kind: 'slot' | 'position' | 'unit' | 'sequence';
  /** Rows per layer: one per query head, one per KV head, or one; `model`: one for the whole model. */
  readonly rows: 'query' | 'kv' | 'layer' | 'model';
  /** Columns of `sequence` state. @defaultValue 1 */
  readonly width?: number;
  /** Further columns of `sequence` state for each channel of a head, and for each pair of channels. @defaultValue 0 */
  readonly perChannel?: number;
  readonly perPair?: number;
  /** Initial value of entries. @defaultValue 0 */
  readonly init?: number;
  /** @defaultValue 'f32' */
  readonly dtype?: DType;
}
/** State, which a piece reads as a signal and writes by returning it. */
export interface State<As extends string = string> extends Signal<As, Tensor> {
  readonly state: StateSpec;
}

/**
 * Declares state: read it by naming it among the needs, write it by returning `{ state: { [as]: tensor } }`.
 * @throws KvError for a kind or rows that are none
 */
export function state<N extends string>(name: N, spec: StateSpec): State<N> {
  for (const [field, words] of [
    ['kind', KINDS],
    ['rows', ROWS],
  ] as const)
    if (!words.includes(spec[field]))
      throw new KvError(name, `expected ${field} of state as one of ${words.join(', ')}, got ${spec[field]}`);
  return { id: `state.${name}`, as: name, cost: 'free', state: spec };
}
const KINDS: readonly string[] = ['slot', 'position', 'unit', 'sequence'] satisfies readonly StateSpec['kind'][],
  ROWS: readonly string[] = ['query', 'kv', 'layer', 'model'] satisfies readonly StateSpec['rows'][];

/** Returns the columns of a `sequence` state in a layer whose heads have this many channels. */
export const stateColumns = ({ width = 1, perChannel = 0, perPair = 0 }: StateSpec, channels: number): number =>
  width + perChannel * channels + perPair * channels ** 2;

/** Whether a signal is a piece's own state. */
export const isState = (s: Signal<string, any>): s is State => 'state' in s;
