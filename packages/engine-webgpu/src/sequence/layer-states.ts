import type { Tensor } from '@kv/core';
import type { Commands } from '@kv/gpu';
import { spread, type CarriedStates } from '@kv/engine';
import { encodeSlots } from '../operations.ts';
import type { DeviceScope } from './device-scope.ts';

/** All states after the first `tokens` tokens. */
interface DeviceSnapshot {
  readonly tokens: number;
  readonly states: readonly Tensor[];
}

/**
 * The states that layers of one sequence carry from token to token on the device, those after each step in flight, and
 * snapshots. Bytes are counted as on the host.
 */
export class DeviceLayerStates implements CarriedStates {
  readonly #sizes: readonly number[];
  readonly #most: number;
  readonly #device: DeviceScope;
  #states: Tensor[];
  /** By layer, what each step in flight leaves, oldest first. */
  readonly #ahead: Tensor[][];
  #snapshots: readonly DeviceSnapshot[] = [];

  /**
   * Creates states of zeros, those before the first token.
   * @param sizes numbers of each
   * @param most snapshots that are held
   */
  constructor(sizes: readonly number[], most: number, device: DeviceScope) {
    [this.#sizes, this.#most, this.#device] = [sizes, most, device];
    this.#states = sizes.map((size) => this.#commands.upload(new Float32Array(size), [1, size]));
    this.#ahead = sizes.map(() => []);
    device.ledger.allocate('layer states', this.bytes);
    device.ledger.use('layer states', this.bytes);
  }

  get bytes(): number {
    return this.#sizes.reduce((sum, size) => sum + 4 * size, 0);
  }

  get snapshots(): readonly number[] {
    return this.#snapshots.map(({ tokens }) => tokens);
  }

  /** The states, `[1, numbers]` each, without what steps in flight leave. */
  get all(): readonly Tensor[] {
    return this.#states;
  }

  keep(tokens: number): void {
    if (this.#most === 0 || this.#sizes.length === 0) return;
    const held = this.#snapshots.filter((each) => each.tokens < tokens),
      all = spread([...held, { tokens, states: this.#copies(this.#states) }], this.#most);
    this.#hold(all);
  }

  /** Returns the state of a layer after the last step in flight. */
  newest(at: number): Tensor {
    return this.#ahead[at].at(-1) ?? this.#states[at];
  }

  /** Allocates a state that outlives a pass: that of a step in flight, or what `replace` takes. */
  make(at: number): Tensor {
    return this.#commands.make([1, this.#sizes[at]]);
  }

  /** Replaces the state of a layer by one that `make` gave. */
  replace(at: number, next: Tensor): void {
    this.#commands.free(this.#states[at]);
    this.#states[at] = next;
  }

  /** Adds what a step in flight leaves, made by `make`. */
  push(at: number, next: Tensor): void {
    this.#ahead[at].push(next);
  }

  /** Makes the states those after the oldest step in flight. */
  commit(): void {
    for (const [at, ahead] of this.#ahead.entries()) {
      const next = ahead.shift();
      if (next) this.replace(at, next);
    }
  }

  /** Drops what steps in flight leave. */
  rewind(): void {
    for (const next of this.#ahead.flatMap((ahead) => ahead.splice(0))) this.#commands.free(next);
  }

  /**
   * @param upTo tokens of the copy: all, or those of a snapshot
   * @param length tokens so far
   */
  fork(device: DeviceScope, upTo: number, length: number): DeviceLayerStates {
    const copy = new DeviceLayerStates(this.#sizes, this.#most, device),
      from = upTo === length ? undefined : this.#snapshots.find(({ tokens }) => tokens === upTo);
    for (const [at, state] of (from?.states ?? this.#states).entries()) copy.#copy(state, copy.#states[at]);
    copy.#hold(
      this.#snapshots
        .filter(({ tokens }) => tokens <= upTo)
        .map(({ tokens, states }) => ({ tokens, states: copy.#copies(states) })),
    );
    return copy;
  }

  /** Restores saved states. */
  restore(states: readonly Float32Array[]): void {
    for (const [at, numbers] of states.entries()) this.#commands.write(this.#states[at], numbers, 0);
  }

  destroy(): void {
    this.rewind();
    this.#hold([]);
    for (const state of this.#states) this.#commands.free(state);
    this.#device.ledger.release('layer states', this.bytes);
    this.#device.ledger.free('layer states', this.bytes);
  }

  get #commands(): Commands {
    return this.#device.scope.commands;
  }

  #copy(from: Tensor, to: Tensor): void {
    encodeSlots(this.#commands, from, to, from.shape[1]);
  }

  #copies(states: readonly Tensor[]): readonly Tensor[] {
    return states.map((state, at) => {
      const copy = this.make(at);
      this.#copy(state, copy);
      return copy;
    });
  }

  #hold(snapshots: readonly DeviceSnapshot[]): void {
    const { ledger } = this.#device,
      more = (snapshots.length - this.#snapshots.length) * this.bytes;
    for (const gone of this.#snapshots.filter((each) => !snapshots.includes(each)))
      for (const state of gone.states) this.#commands.free(state);
    if (more > 0) {
      ledger.allocate('snapshots', more);
      ledger.use('snapshots', more);
    } else {
      ledger.release('snapshots', -more);
      ledger.free('snapshots', -more);
    }
    this.#snapshots = snapshots;
  }
}
