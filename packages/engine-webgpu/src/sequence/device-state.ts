import type { AnySignal } from '@kv/core';
import type { OpenScope, Scope } from '@kv/gpu';
import type { Decoder, InputRecording, KeptLayers, SequenceCaches, SlotReader, TokenProgress } from '@kv/engine';
import type { DeviceRunnable } from '../engine.ts';
import type { DecodedParts } from './decoded-parts.ts';
import type { DeviceLayer } from './layer.ts';
import type { DeviceLayerStates } from './layer-states.ts';
import type { DeviceStates } from './states.ts';

/** What passes, providers and speculative steps read and change in caches on a device. */
export interface DeviceState extends Pick<SequenceCaches, 'context' | 'slots' | 'move' | 'free'> {
  readonly decoder: Decoder<DeviceRunnable>;
  /** What the model's layers keep, and their places in `layers` and `states`. */
  readonly kept: KeptLayers;
  /** Layers that keep slots. */
  readonly layers: readonly DeviceLayer[];
  /** States of the layers that keep none. */
  readonly states: DeviceLayerStates;
  /** State of rows `model`. */
  readonly shared: DeviceStates;
  /** Input signals that are recorded. */
  readonly inputs: InputRecording;
  /** Keys and values that pieces read now. */
  readonly decoded: DecodedParts;
  /** Opens a scope: what is recorded in it is freed together. */
  open(): OpenScope;
  /**
   * Returns a reader of one layer's current signals, recorded in `scope`.
   * @param of the layer whose query heads they are of, where several read its slots @defaultValue all of these
   */
  reader(layer: number, scope?: Pick<Scope, 'commands' | 'ops'>, of?: SlotReader): (signal: AnySignal) => unknown;
  /** Returns empty caches of the same model. */
  empty(progress?: TokenProgress): DeviceState;
  fork(): DeviceState;
}
