import type { AnySignal } from '@kv/core';
import type { KeptLayers, SlotReader } from '../decoder/keeps.ts';
import type { SequenceCaches } from '../memory/caches.ts';
import type { InputRecording } from '../memory/input-recording.ts';
import type { HostDecoder } from './decoder.ts';
import type { HiddenNumbers } from './hidden.ts';
import type { LayerMemory } from './layer.ts';
import type { LayerStates } from './layer-states.ts';
import type { EventSignals } from './provide.ts';
import type { StateStore } from './store.ts';

/** Whose signals are read, and what is known already. */
export interface SignalOptions {
  /** Results of providers, by signal key. */
  readonly provided?: ReadonlyMap<string, unknown>;
  /** Signals shared by the layers of an event. */
  readonly common?: EventSignals | undefined;
  /** The layer whose query heads a view is of, where several read these slots. @defaultValue all query heads */
  readonly reader?: SlotReader | undefined;
}

/** What passes, providers and step hooks read and change in caches on the host. */
export interface HostState extends Pick<SequenceCaches, 'context' | 'slots' | 'move' | 'free'> {
  readonly decoder: HostDecoder;
  /** What the model's layers keep, and their places in `layers` and `states`. */
  readonly kept: KeptLayers;
  /** Layers that keep slots. */
  readonly layers: readonly LayerMemory[];
  /** States of the layers that keep none. */
  readonly states: LayerStates;
  /** State of rows `model`. */
  readonly shared: StateStore;
  /** What providers compute from hidden states, if one does. */
  readonly hidden: HiddenNumbers | undefined;
  /** Input signals that are recorded. */
  readonly inputs: InputRecording;
  /** Returns a reader of one layer's current signals. */
  reader(layer: number, options?: SignalOptions): (signal: AnySignal) => unknown;
  /** Returns empty caches of the same model. */
  empty(): HostState;
  fork(): HostState;
}
