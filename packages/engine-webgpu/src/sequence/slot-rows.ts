import type { Tensor } from '@kv/core';
import type { Commands } from '@kv/gpu';
import { encodeCompact, encodeRest, encodeSlots } from '../operations.ts';
import { forRows, roomFor, type DeviceScope, type SlotSelection } from './device-scope.ts';

/**
 * f32 `[rows, stride]` on the device, one entry per slot of a layer's cache and compacted with it; `init` where nothing
 * was written. Bytes are counted as on the host.
 */
export class DeviceSlotRows {
  readonly rows: number;
  readonly #init: number;
  readonly #name: string;
  readonly #device: DeviceScope;
  #tensor: Tensor;
  #length = 0;
  /** Numbers that count as used. */
  #used = 0;

  constructor(rows: number, init: number, name: string, device: DeviceScope) {
    [this.rows, this.#init, this.#name, this.#device] = [rows, init, name, device];
    this.#tensor = device.scope.commands.make([rows, 0]);
  }

  get tensor(): Tensor {
    return this.#tensor;
  }
  get length(): number {
    return this.#length;
  }
  get #stride(): number {
    return this.#tensor.shape[1];
  }

  /** Grows to `length` slots, the new ones at `init`. */
  grow(length: number): void {
    if (length > this.#stride) {
      const most = Math.floor(this.#device.scope.commands.mostBytes / (4 * this.rows));
      this.#resize(roomFor(length, this.#stride, most));
    }
    this.#count(length, this.#used + this.rows * (length - this.#length));
  }

  /** Counts the slots of each head alone, `[kvHead]`, one row each: not those of the longest in all of them. */
  settle(lengths: readonly number[]): void {
    this.#count(
      this.#length,
      lengths.reduce((sum, n) => sum + n, 0),
    );
  }

  /**
   * Sets the first columns to those of `[rows, slots]`.
   * @param join puts values of some rows into those of all, `[rows, slots]` @defaultValue values are of all rows
   */
  write(values: Tensor, join?: (values: Tensor, all: Tensor) => void): void {
    const { commands } = this.#device.scope,
      slots = values.shape[1];
    const all = join ? this.dense(commands, slots) : values;
    join?.(values, all);
    encodeSlots(commands, all, this.#tensor, slots);
    if (join) commands.free(all);
  }

  /** Adds new slots `[rows, m]` after the `lengths` of each KV head. */
  add(values: Tensor, lengths: readonly number[]): void {
    const { commands } = this.#device.scope,
      m = values.shape[1],
      [first] = lengths;
    this.grow(Math.max(...lengths) + m);
    if (lengths.every((n) => n === first)) {
      encodeSlots(commands, values, this.#tensor, m, 0, first);
      return;
    }
    const row = (x: Tensor): Tensor => ({ ...x, shape: [1, x.shape[0] * x.shape[1]] }),
      [from, to] = [row(values), row(this.#tensor)];
    for (let r = 0; r < this.rows; r++)
      encodeSlots(
        commands,
        from,
        to,
        m,
        r * m,
        r * this.#stride + lengths[Math.floor((r * lengths.length) / this.rows)],
      );
  }

  /** Restores saved numbers `[rows, slots]`. */
  restore(numbers: Float32Array, slots: number): void {
    const { commands } = this.#device.scope;
    this.grow(slots);
    for (let r = 0; r < this.rows; r++)
      commands.write(this.#tensor, numbers.subarray(r * slots, (r + 1) * slots), r * this.#stride);
  }

  /** Returns a copy of the first `slots` columns of every row, `[rows, slots]`. */
  dense(commands: Commands, slots: number): Tensor {
    const out = commands.make([this.rows, slots]);
    encodeSlots(commands, this.#tensor, out, slots);
    return out;
  }

  /** Records that these slots of each head are kept: at most `counts`, until `confirm` says how many. */
  keep(selection: SlotSelection, counts: readonly number[]): void {
    const { commands } = this.#device.scope,
      { kept, counts: valid } = forRows(selection, this.rows);
    encodeCompact(commands, this.#tensor, kept, valid, { most: Math.max(...counts) });
    encodeRest(commands, this.#tensor, valid, this.#init);
    this.confirm(counts);
  }

  /** Sets the number of slots of each head, `[kvHead]`. */
  confirm(counts: readonly number[]): void {
    this.#count(Math.max(0, ...(this.rows < counts.length ? counts.slice(0, 1) : counts)));
  }

  fork(device: DeviceScope): DeviceSlotRows {
    const copy = new DeviceSlotRows(this.rows, this.#init, this.#name, device);
    copy.grow(this.#length);
    copy.#count(this.#length, this.#used);
    encodeSlots(device.scope.commands, this.#tensor, copy.#tensor, this.#length);
    return copy;
  }

  destroy(): void {
    const { scope, ledger } = this.#device;
    this.#count(0);
    ledger.free(this.#name, 4 * this.rows * this.#stride);
    scope.commands.free(this.#tensor);
  }

  #resize(stride: number): void {
    const {
        scope: { commands },
        ledger,
      } = this.#device,
      next = commands.upload(new Float32Array(this.rows * stride).fill(this.#init), [this.rows, stride]);
    ledger.allocate(this.#name, 4 * this.rows * stride);
    encodeSlots(commands, this.#tensor, next, Math.min(this.#length, stride));
    commands.free(this.#tensor);
    ledger.free(this.#name, 4 * this.rows * this.#stride);
    this.#tensor = next;
  }

  #count(length: number, used: number = this.rows * length): void {
    const change = 4 * (used - this.#used);
    if (change > 0) this.#device.ledger.use(this.#name, change);
    else this.#device.ledger.release(this.#name, -change);
    [this.#length, this.#used] = [length, used];
  }
}
