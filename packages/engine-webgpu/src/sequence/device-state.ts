import type { AnySignal } from '@kv/core';
import type { OpenScope, Scope } from '@kv/gpu';
import type { Decoder, SequenceMemory } from '@kv/engine';
import type { DeviceRunnable } from '../engine.ts';
import type { DeviceLayer } from './layer.ts';
import type { DeviceStates } from './states.ts';

/** What passes, providers and steps ahead read and change of a memory on a device. */
export interface DeviceState extends SequenceMemory {
  readonly decoder: Decoder<DeviceRunnable>;
  readonly layers: readonly DeviceLayer[];
  /** State of rows `model`. */
  readonly shared: DeviceStates;
  /** What is recorded for a while, given back together. */
  open(): OpenScope;
  /** A reader of one layer's signals as they are now, recorded in `scope`. */
  reader(layer: number, scope?: Pick<Scope, 'commands' | 'ops'>): (signal: AnySignal) => unknown;
  /** Nothing yet, of the same model. */
  empty(): DeviceState;
  fork(): DeviceState;
}
