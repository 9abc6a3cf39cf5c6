import type { AnySignal } from '@kv/core';
import type { SequenceMemory } from '../memory/sequence-memory.ts';
import type { HostDecoder } from './decoder.ts';
import type { HiddenNumbers } from './hidden.ts';
import type { LayerMemory } from './layer.ts';
import type { StateStore } from './store.ts';

/** What passes, providers and step hooks read and change of a memory on the host. */
export interface HostState extends SequenceMemory {
  readonly decoder: HostDecoder;
  readonly layers: readonly LayerMemory[];
  /** State of rows `model`. */
  readonly shared: StateStore;
  /** What providers make of hidden states, where one asks for them. */
  readonly hidden: HiddenNumbers | undefined;
  /** A reader of one layer's signals as they are now; `provided`: what providers made of some, by signal key. */
  reader(layer: number, provided?: ReadonlyMap<string, unknown>): (signal: AnySignal) => unknown;
  /** Nothing yet, of the same model. */
  empty(): HostState;
  fork(): HostState;
}
