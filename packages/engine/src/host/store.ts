import { KvError } from '@kv/core';
import { stateColumns } from '@kv/core/engine';
import { dropInputEntries } from '../memory/input-recording.ts';
import type { Ops, State, StateSpec, Tensor } from '@kv/core';
import type { Store } from '../cache/storage.ts';
import { pickHeads } from '../decoder/joined-heads.ts';
import type { Ledger } from '../ledger.ts';
import type { StoredState } from '../memory/snapshot.ts';
import { SlotRows } from '../cache/slot-rows.ts';

interface Shape {
  readonly queryHeads: number;
  readonly kvHeads: number;
  readonly headDim: number;
}
const ROWS: Record<StateSpec['rows'], (s: Omit<Shape, 'headDim'>) => number> = {
  query: (s) => s.queryHeads,
  kv: (s) => s.kvHeads,
  layer: () => 1,
  model: () => 1,
};

/** Returns the rows of a state in a model of this shape. */
export const stateRows = ({ rows }: StateSpec, shape: Omit<Shape, 'headDim'>): number => ROWS[rows](shape);

interface Entry {
  readonly spec: StateSpec;
  readonly rows: SlotRows;
  length: number;
}

/**
 * The state of pieces in one layer (or, for rows `model`, in the sequence): stored, compacted, forked and counted under
 * `states`.
 */
export class StateStore {
  readonly #entries = new Map<string, Entry>();
  readonly #shape: Shape;
  readonly #ledger: Ledger;
  readonly #store: Store | undefined;

  /** @param store allocates the states @defaultValue arrays of their own */
  constructor(shape: Shape, ledger: Ledger, store?: Store) {
    [this.#shape, this.#ledger, this.#store] = [shape, ledger, store];
  }

  /**
   * Returns the state as a tensor with room for `slots` slots and `positions` positions.
   * @param heads the rows to return of a state of query heads @defaultValue all
   */
  read(signal: State, slots: number, positions: number, ops: Ops, lengths?: Tensor, heads?: Uint32Array): Tensor {
    const entry = this.#entry(signal, slots, positions);
    const { rows, length } = entry;
    return ops.from(
      heads && signal.state.rows === 'query'
        ? { data: pickHeads(rows.data, heads, rows.stride, length), shape: [heads.length, length] }
        : { data: rows.data, shape: [rows.rows, length], stride: [rows.stride, 1] },
      'f32',
      entry.spec.kind === 'slot' ? lengths : undefined,
    );
  }

  /**
   * Replaces the state by host values `[rows, columns]`.
   * @param heads the rows of a state of query heads that these are @defaultValue all
   */
  write(
    signal: State,
    values: { readonly data: ArrayLike<number>; readonly shape: readonly number[] },
    heads?: Uint32Array,
  ): void {
    const [rows = 1, columns = 1] = values.shape,
      some = signal.state.rows === 'query' ? heads : undefined,
      want = some?.length ?? stateRows(signal.state, this.#shape);
    if (rows !== want)
      throw new KvError(
        signal.as,
        `state of rows '${signal.state.rows}' must have ${want} rows, got shape [${values.shape}]`,
      );
    const entry = this.#entry(signal, columns, columns);
    entry.rows.grow(columns);
    entry.length = columns;
    entry.rows.write(values.data, columns, some);
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
   * Adds the numbers `[rows, m]` of new slots to a state of slots.
   * @param lengths slots before them, `[kvHead]`
   */
  add(
    signal: State,
    { data, shape: [, m = 0] }: { readonly data: ArrayLike<number>; readonly shape: readonly number[] },
    lengths: ArrayLike<number>,
  ): void {
    const entry = this.#entry(signal, Math.max(0, ...Array.from(lengths)) + m, 0),
      { rows } = entry;
    for (let r = 0; r < rows.rows; r++) {
      const at = r * rows.stride + lengths[Math.floor((r * lengths.length) / rows.rows)];
      for (let i = 0; i < m; i++) rows.data[at + i] = data[r * m + i];
    }
  }

  /** Forgets the numbers of input signals, except of some. */
  dropInputs(except?: (id: string) => boolean): void {
    dropInputEntries(this.#entries, except);
  }

  /** Makes room for a state of this many columns, or as many as it has, and returns its numbers. */
  room(signal: State, columns: number): { readonly data: Float32Array; readonly stride: number } {
    const entry = this.#entry(signal, columns, columns);
    if (columns > entry.length) {
      entry.rows.grow(columns);
      entry.length = columns;
    }
    return entry.rows;
  }

  /** Compacts per-slot state to the slots that the cache keeps. */
  keep(kept: readonly Uint32Array[]): void {
    for (const entry of this.#entries.values())
      if (entry.spec.kind === 'slot') {
        entry.rows.keep(kept);
        entry.length = Math.max(0, ...kept.map((k) => k.length));
      }
  }

  /** Returns the first entry of a row, if this state is kept. */
  first(id: string, row: number): number | undefined {
    const rows = this.#entries.get(id)?.rows;
    return rows && row < rows.rows ? rows.data[row * rows.stride] : undefined;
  }

  get empty(): boolean {
    return this.#entries.size === 0;
  }

  /** Returns all states, each dense. */
  saved(): readonly StoredState[] {
    return Array.from(this.#entries, ([id, { spec, rows, length: columns }]) => ({
      id,
      spec,
      columns,
      data: rows.dense(columns),
    }));
  }

  /** Restores a saved state. */
  restore({ id, spec, columns, data }: StoredState): void {
    const rows = new SlotRows(stateRows(spec, this.#shape), spec.init ?? 0, 'states', this.#ledger, this.#store);
    rows.grow(columns);
    rows.write(data, columns);
    this.#entries.set(id, { spec, rows, length: columns });
  }

  fork(ledger: Ledger): StateStore {
    const copy = new StateStore(this.#shape, ledger, this.#store);
    for (const [id, { spec, rows, length }] of this.#entries)
      copy.#entries.set(id, { spec, rows: rows.fork(ledger), length });
    return copy;
  }

  destroy(): void {
    for (const { rows } of this.#entries.values()) rows.destroy();
    this.#entries.clear();
  }

  #entry(signal: State, slots: number, positions: number): Entry {
    const spec = signal.state;
    let entry = this.#entries.get(signal.id);
    if (!entry) {
      entry = {
        spec,
        rows: new SlotRows(stateRows(spec, this.#shape), spec.init ?? 0, 'states', this.#ledger, this.#store),
        length: 0,
      };
      this.#entries.set(signal.id, entry);
    }
    const columns = {
      slot: slots,
      position: positions,
      unit: Math.max(entry.length, spec.width ?? 1),
      sequence: stateColumns(spec, this.#shape.headDim),
    }[spec.kind];
    if (columns > entry.length) {
      entry.rows.grow(columns);
      entry.length = columns;
    }
    return entry;
  }
}
