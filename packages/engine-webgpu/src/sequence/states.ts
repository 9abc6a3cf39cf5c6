import { KvError } from '@kv/core';
import { stateColumns } from '@kv/core/engine';
import { dropInputEntries } from '@kv/engine';
import type { State, StateSpec, Tensor } from '@kv/core';
import type { Commands } from '@kv/gpu';
import type { SlotReader, StoredState } from '@kv/engine';
import type { DeviceScope } from './device-scope.ts';
import { joinHeads, pickHeads } from './joined-heads.ts';
import { DeviceSlotRows } from './slot-rows.ts';

/** Rows of each kind of state, and the channels of a head. */
export type StateShape = Readonly<Record<StateSpec['rows'] | 'channels', number>>;

/** The state of pieces in one layer (or, for rows `model`, in the sequence), on the device. */
export class DeviceStates {
  readonly #entries = new Map<string, { readonly spec: StateSpec; readonly rows: DeviceSlotRows }>();
  readonly #shape: StateShape;
  readonly #device: DeviceScope;

  constructor(shape: StateShape, device: DeviceScope) {
    [this.#shape, this.#device] = [shape, device];
  }

  get empty(): boolean {
    return this.#entries.size === 0;
  }

  /**
   * Returns the state with room for `slots` slots and `positions` positions; `lengths` of the slots where heads differ.
   * @param reader whose rows to return of a state of query heads @defaultValue all
   */
  read(
    commands: Commands,
    signal: State,
    slots: number,
    positions: number,
    lengths?: Tensor,
    reader?: SlotReader,
  ): Tensor {
    const { rows, spec } = this.#entry(signal, slots, positions),
      all = rows.dense(commands, rows.length),
      tensor = reader && spec.rows === 'query' ? pickHeads(commands, all, reader, this.#shape.kv) : all;
    return spec.kind === 'slot' && lengths ? { ...tensor, lengths } : tensor;
  }

  /**
   * Replaces the state by `[rows, columns]`.
   * @param reader whose rows of a state of query heads these are @defaultValue all
   */
  write(signal: State, values: Tensor, reader?: SlotReader): void {
    const [rows = 1, columns = 1] = values.shape,
      some = signal.state.rows === 'query' ? reader : undefined,
      want = some?.rows.length ?? this.#shape[signal.state.rows];
    if (rows !== want)
      throw new KvError(
        signal.as,
        `state of rows '${signal.state.rows}' must have ${want} rows, got shape [${values.shape}]`,
      );
    const entry = this.#entry(signal, columns, columns);
    entry.rows.grow(columns);
    entry.rows.write(
      values,
      some && ((part, all) => joinHeads(this.#device.scope.commands, part, all, some, this.#shape.kv)),
    );
  }

  /** Starts a state of slots, of which there are none yet. */
  start(signal: State): void {
    this.#entry(signal, 0, 0);
  }

  /** Whether it has a state of this id. */
  has(id: string): boolean {
    return this.#entries.has(id);
  }

  /**
   * Records the numbers `[rows, m]` of new slots of a state of slots, which come after the `lengths` of each KV head.
   */
  add(signal: State, values: Tensor, lengths: readonly number[]): void {
    const { rows } = this.#entry(signal, Math.max(...lengths) + values.shape[1], 0);
    rows.add(values, lengths);
  }

  /** Forgets the numbers of input signals, except of some. */
  dropInputs(except?: (id: string) => boolean): void {
    dropInputEntries(this.#entries, except);
  }

  /** The per-slot states, which are compacted with the cache. */
  get slots(): readonly DeviceSlotRows[] {
    return [...this.#entries.values()].flatMap(({ spec, rows }) => (spec.kind === 'slot' ? [rows] : []));
  }

  /** Returns all states for a file, as tensors on the device. */
  saved(commands: Commands): readonly (Omit<StoredState, 'data'> & { readonly tensor: Tensor })[] {
    return Array.from(this.#entries, ([id, { spec, rows }]) => ({
      id,
      spec,
      columns: rows.length,
      tensor: rows.dense(commands, rows.length),
    }));
  }

  /** Restores a saved state. */
  restore({ id, spec, columns, data }: StoredState): void {
    const rows = new DeviceSlotRows(this.#shape[spec.rows], spec.init ?? 0, 'states', this.#device);
    rows.restore(data, columns);
    this.#entries.set(id, { spec, rows });
  }

  fork(device: DeviceScope): DeviceStates {
    const copy = new DeviceStates(this.#shape, device);
    for (const [id, { spec, rows }] of this.#entries) copy.#entries.set(id, { spec, rows: rows.fork(device) });
    return copy;
  }

  destroy(): void {
    for (const { rows } of this.#entries.values()) rows.destroy();
    this.#entries.clear();
  }

  #entry(signal: State, slots: number, positions: number): { readonly spec: StateSpec; readonly rows: DeviceSlotRows } {
    const spec = signal.state;
    let entry = this.#entries.get(signal.id);
    if (!entry)
      this.#entries.set(
        signal.id,
        (entry = { spec, rows: new DeviceSlotRows(this.#shape[spec.rows], spec.init ?? 0, 'states', this.#device) }),
      );
    const { rows } = entry,
      columns = {
        slot: slots,
        position: positions,
        unit: Math.max(rows.length, spec.width ?? 1),
        sequence: stateColumns(spec, this.#shape.channels),
      }[spec.kind];
    if (columns > rows.length) rows.grow(columns);
    return entry;
  }
}
